"""Fuzzes the channel's decoder with libFuzzer, guided by code coverage. Takes the options of libFuzzer:

    python -m tests.grader.wire.fuzz_channel -max_total_time=600

Every input must raise ChannelError, or decode to a frame that is unchanged after encoding and decoding again.
"""

import contextlib
import socket
import sys
import tempfile
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["grader.wire.channel"]):
    from grader.wire.channel import LENGTHS, WIRE_DTYPES, ChannelError, Frame, encode, receive

from grader.wire.compare import Leaf

MAX_INPUT = 4096  # bytes; fewer than a socket buffers, so writing never blocks


def received(data: bytes) -> Frame:
    """The frame received from a socket to which these bytes were written."""
    writer, reader = socket.socketpair()
    with reader:
        with writer:
            writer.sendall(data[:MAX_INPUT])
        return receive(reader)


def framed(data: bytes) -> bytes:
    """A header and a body, separated by a zero byte in the input, with correct lengths; random bytes rarely have
    those."""
    header, _, body = data.partition(b"\0")
    return LENGTHS.pack(len(header), len(body)) + header + body


def check_input(data: bytes) -> None:
    """Checks one input, both as it is and with correct lengths added."""
    for message in (data, framed(data[: MAX_INPUT - LENGTHS.size])):
        with contextlib.suppress(ChannelError):
            encoded = encode(received(message))
            assert len(encoded) > MAX_INPUT or encode(received(encoded)) == encoded


def initial_corpus() -> list[bytes]:
    """A frame with a leaf of each dtype and one without leaves, each also in the form that `framed` reads."""
    leaves = [Leaf("out.0", name, np.ones((2, 3 - (name == "bool")), wire)) for name, wire in WIRE_DTYPES.items()]
    frames = [Frame("ready", {"isolation": "strict", "n": [1, None]}, [leaf]) for leaf in leaves] + [Frame("")]
    corpus = []
    for data in map(encode, frames):
        size, _ = LENGTHS.unpack(data[: LENGTHS.size])
        rest = data[LENGTHS.size :]
        corpus += [data, rest[:size] + b"\0" + rest[size:]]
    return corpus


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(initial_corpus()):
            Path(folder, str(number)).write_bytes(data)
        atheris.Setup([*sys.argv, f"-max_len={MAX_INPUT}", folder], check_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
