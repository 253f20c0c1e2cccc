"""Fuzzes the channel's decoder, guided by what its code reaches. With the options of libFuzzer:

    python -m tests.grader.fuzz_channel -max_total_time=600

Whatever arrives is a frame, and the same one when it is sent on, or it is a ChannelError.
"""

import contextlib
import socket
import sys
import tempfile
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["grader.channel"]):
    from grader.wire.channel import LENGTHS, WIRE_DTYPES, ChannelError, Frame, encode, receive

from grader.wire.compare import Leaf

LONGEST = 4096  # bytes; a socket holds more, so that writing never waits for the reader


def arrives(data: bytes) -> Frame:
    """The frame that comes out of a socket into which these bytes were written."""
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(data[:LONGEST])
        return receive(theirs)


def framed(data: bytes) -> bytes:
    """A header and a body, with a zero between them, under lengths that are true: noise hardly ever gets past those."""
    header, _, body = data.partition(b"\0")
    return LENGTHS.pack(len(header), len(body)) + header + body


def one(data: bytes) -> None:
    """What is tried with each input."""
    for sent in (data, framed(data[: LONGEST - LENGTHS.size])):
        with contextlib.suppress(ChannelError):
            again = encode(arrives(sent))
            assert len(again) > LONGEST or encode(arrives(again)) == again


def examples() -> list[bytes]:
    """To begin with: a frame with a leaf of each dtype, and one without any."""
    leaves = [Leaf("out.0", name, np.ones((2, 3 - (name == "bool")), wire)) for name, wire in WIRE_DTYPES.items()]
    frames = [Frame("ready", {"isolation": "strict", "n": [1, None]}, [leaf]) for leaf in leaves] + [Frame("")]
    found = []
    for data in map(encode, frames):
        size, _ = LENGTHS.unpack(data[: LENGTHS.size])
        header = data[LENGTHS.size :]
        found += [data, header[:size] + b"\0" + header[size:]]
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(examples()):
            Path(folder, str(number)).write_bytes(data)
        atheris.Setup([*sys.argv, f"-max_len={LONGEST}", folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
