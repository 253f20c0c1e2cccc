"""Frames: every frame survives a round trip, and anything else is refused in bounded time and memory."""

import json
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grader.wire.channel import (
    MAX_BODY,
    WIDENED,
    WIRE_DTYPES,
    ChannelClosedError,
    ChannelError,
    DeadlineExceededError,
    Frame,
    decode,
    encode,
    receive,
    send,
)
from grader.wire.compare import Leaf
from tests.conftest import ROOT

pytestmark = pytest.mark.fast

paths = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=20)
arrays = st.sampled_from(sorted(set(WIRE_DTYPES) - set(WIDENED))).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
frames = st.builds(
    Frame,
    st.text(max_size=8),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3),
    st.dictionaries(paths, arrays, max_size=3).map(
        lambda arrays_by_path: [Leaf(path, str(array.dtype), array) for path, array in arrays_by_path.items()]
    ),
)


def split(data: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(data[:4], "big")
    return data[12 : 12 + size], data[12 + size :]


def same(left: Frame, right: Frame) -> bool:
    return (left.kind, left.fields) == (right.kind, right.fields) and all(
        a.path == b.path and a.dtype == b.dtype and a.values.tobytes() == b.values.tobytes() and a.shape == b.shape
        for a, b in zip(left.leaves, right.leaves, strict=True)
    )


@given(frames)
def test_a_frame_survives_a_round_trip(frame):
    assert same(decode(*split(encode(frame))), frame)


@given(frames, st.data())
def test_a_corrupt_frame_is_refused_or_decodes_to_a_frame(frame, data):
    header, body = split(encode(frame))
    whole = bytearray(header + body)
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for parts in ((whole[: len(header)], whole[len(header) :]), (whole[:cut], whole[cut:])):
        try:
            decoded = decode(bytes(parts[0]), bytes(parts[1]))
        except ChannelError:
            continue
        assert sum(leaf.values.nbytes for leaf in decoded.leaves) == len(parts[1])


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_random_bytes_are_refused(header, body):
    with pytest.raises(ChannelError):
        decode(header, body)


def test_no_fuzzed_input_breaks_the_decoder():
    pytest.importorskip("atheris", reason="published for Linux on x86-64 only")
    command = [sys.executable, "-m", "tests.grader.wire.fuzz_channel", "-runs=20000", "-seed=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "DONE" in done.stderr


def header(**changes: object) -> bytes:
    return json.dumps({"kind": "reading", "fields": {}, "leaves": [], **changes}).encode()


@pytest.mark.parametrize(
    ("leaves", "body", "complaint"),
    [
        ([["x", "float32", [2]]], b"\0" * 4, "shorter"),
        ([["x", "float32", [1]]], b"\0" * 8, "longer"),
        ([["x", "object", [1]]], b"\0" * 8, "dtype"),
        ([["x", "float32", [-1]]], b"", "shape"),
        ([["x", "float32", [True]]], b"\0" * 4, "shape"),
        ([["x", "float32", [1 << 40, 0]]], b"", "size limit"),
        ([["x", "float32", [1] * 40]], b"\0" * 4, "shape"),
        ([["x\x1b[2J", "float32", []]], b"\0" * 4, "path"),
        ([["x", "float32", []], ["x", "float32", []]], b"\0" * 8, "same path"),
        ([["x", "float32"]], b"", "not a path"),
        ("x", b"", "types"),
        ([["x", "bool", []]] * 5000, b"\0" * 5000, "types"),
    ],
)
def test_an_inconsistent_header_is_refused_with_a_reason(leaves, body, complaint):
    with pytest.raises(ChannelError, match=complaint):
        decode(header(leaves=leaves), body)


@pytest.mark.parametrize("top", [b"[]", b"{}", header(kind=3), header(fields=[]), header(extra=1), b"[" * 100_000])
def test_json_that_is_not_a_header_is_refused(top):
    with pytest.raises(ChannelError):
        decode(top, b"")


def test_a_frame_that_announces_too_many_bytes_is_refused_before_it_is_read():
    judge, worker = socket.socketpair()
    with judge, worker:
        worker.sendall((8).to_bytes(4, "big") + (MAX_BODY + 1).to_bytes(8, "big"))
        with pytest.raises(ChannelError, match="size limit"):
            receive(judge, time.monotonic() + 5)


def test_one_deadline_covers_the_whole_frame():
    """Sending a byte from time to time does not extend it."""
    judge, worker = socket.socketpair()
    stop = threading.Event()

    def trickle() -> None:
        for byte in encode(Frame("reading")):
            if stop.wait(0.05):
                return
            worker.send(bytes([byte]))

    thread = threading.Thread(target=trickle)
    thread.start()
    start = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        receive(judge, start + 0.3)
    assert time.monotonic() - start < 2
    stop.set()
    thread.join()
    judge.close()
    worker.close()


def test_a_closed_channel_raises():
    judge, worker = socket.socketpair()
    worker.close()
    with judge:
        with pytest.raises(ChannelClosedError):
            receive(judge)
        with pytest.raises(ChannelClosedError):
            send(judge, Frame("probe", {}, [Leaf("x", "float32", np.zeros(1 << 20, np.float32))]))


def test_a_result_above_the_size_limit_is_not_sent():
    with pytest.raises(ChannelError, match="size limit"):
        encode(Frame("reading", {}, [Leaf("x", "uint8", np.zeros(MAX_BODY + 1, np.uint8))]))
