"""Frames between judge and worker: numbers and short text, never objects.

A frame is `!IQ` (the lengths of header and body), a JSON header, and the little-endian bytes of its leaves. The decoder
trusts nothing: it caps sizes before it allocates, accepts only dtypes on a fixed list, and checks the exact type of
every field.
"""

import json
import math
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from grader.wire.compare import Leaf

LENGTHS = struct.Struct("!IQ")  # of the header and of the body, in bytes
MAX_HEADER = 1 << 20
MAX_BODY = 64 << 20
MAX_LEAVES = 4096
MAX_NDIM = 16

# The dtypes of JAX that NumPy does not have, and what they are widened to.
WIDENED = {
    "bfloat16": "<f4",
    "float4_e2m1fn": "<f4",
    "float8_e3m4": "<f4",
    "float8_e4m3": "<f4",
    "float8_e4m3b11fnuz": "<f4",
    "float8_e4m3fn": "<f4",
    "float8_e4m3fnuz": "<f4",
    "float8_e5m2": "<f4",
    "float8_e5m2fnuz": "<f4",
    "float8_e8m0fnu": "<f4",
    "int2": "|i1",
    "int4": "|i1",
    "uint2": "|u1",
    "uint4": "|u1",
}
# The dtype that a leaf is sent as, by its own dtype.
WIRE_DTYPES = WIDENED | {
    "bool": "|b1", "complex64": "<c8", "complex128": "<c16", "float16": "<f2", "float32": "<f4",
    "float64": "<f8", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "|u1", "uint16": "<u2",
    "uint32": "<u4", "uint64": "<u8",
}  # fmt: skip


class ChannelError(Exception):
    """The other side sent something that is not a frame, or sent nothing."""


class ChannelClosedError(ChannelError):
    """The other side has closed the channel."""


class DeadlineExceededError(ChannelError):
    """No complete frame arrived before the deadline."""


@dataclass(frozen=True)
class Frame:
    """A kind, a few JSON fields, and named arrays: one message."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    leaves: Sequence[Leaf] = ()


def encode(frame: Frame) -> bytes:
    """Returns the frame as bytes. Raises ChannelError if it exceeds the size limits."""
    bodies = [np.ascontiguousarray(leaf.values, dtype=WIRE_DTYPES[leaf.dtype]).tobytes() for leaf in frame.leaves]
    table = [[leaf.path, leaf.dtype, list(leaf.shape)] for leaf in frame.leaves]
    header = json.dumps({"kind": frame.kind, "fields": frame.fields, "leaves": table}).encode()
    size = sum(map(len, bodies))
    if len(header) > MAX_HEADER or size > MAX_BODY or len(table) > MAX_LEAVES:
        raise ChannelError(f"a result of {size} bytes in {len(table)} leaves exceeds the size limit")
    return b"".join([LENGTHS.pack(len(header), size), header, *bodies])


def decode(header: bytes, body: bytes) -> Frame:
    """Returns the frame in a header and a body. Raises ChannelError on anything that `encode` does not make."""
    try:
        top = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise ChannelError(f"the header is not JSON: {error}") from None
    if type(top) is not dict or set(top) != {"kind", "fields", "leaves"}:
        raise ChannelError("the header's fields are not those of a frame")
    kind, fields, table = top["kind"], top["fields"], top["leaves"]
    if type(kind) is not str or type(fields) is not dict or type(table) is not list or len(table) > MAX_LEAVES:
        raise ChannelError("the header's fields have the wrong types")
    leaves, start, seen = [], 0, set()
    for row in table:
        path, dtype, shape = _leaf_header(row)
        if path in seen:
            raise ChannelError("two leaves have the same path")
        seen.add(path)
        wire = np.dtype(WIRE_DTYPES[dtype])
        size = math.prod(shape) * wire.itemsize
        if start + size > len(body):
            raise ChannelError("the body is shorter than its leaves")
        values = np.frombuffer(body, wire, math.prod(shape), start).reshape(shape)
        leaves.append(Leaf(path, dtype, values))
        start += size
    if start != len(body):
        raise ChannelError("the body is longer than its leaves")
    return Frame(kind, fields, leaves)


def decode_whole(data: bytes) -> Frame:
    """Returns the frame that `encode` made these bytes of. Raises ChannelError on anything else."""
    body = LENGTHS.size + int.from_bytes(data[:4], "big")
    return decode(data[LENGTHS.size : body], data[body:])


def _leaf_header(row: Any) -> tuple[str, str, tuple[int, ...]]:
    if type(row) is not list or len(row) != 3:
        raise ChannelError("a leaf is not a path, a dtype and a shape")
    path, dtype, shape = row
    if type(path) is not str or len(path) > 500 or not path.isprintable():
        raise ChannelError("a leaf's path is not a short line of text")
    if type(dtype) is not str or dtype not in WIRE_DTYPES:
        raise ChannelError("a leaf's dtype cannot be sent")
    if type(shape) is not list or len(shape) > MAX_NDIM or any(type(n) is not int or n < 0 for n in shape):
        raise ChannelError("a leaf's shape is not a list of sizes")
    # An axis of size 0 must not hide a product that overflows in NumPy.
    if math.prod(max(n, 1) for n in shape) > MAX_BODY:
        raise ChannelError("a leaf exceeds the size limit")
    return path, dtype, tuple(shape)


def send(sock: socket.socket, frame: Frame) -> None:
    """Writes one frame. Raises ChannelClosedError or DeadlineExceededError."""
    try:
        sock.sendall(encode(frame))
    except TimeoutError:
        raise DeadlineExceededError("the other side did not read in time") from None
    except OSError as error:
        raise ChannelClosedError(str(error)) from None


def arrives(sock: socket.socket, deadline: float) -> bool:
    """Returns whether something can be read before the deadline, in seconds of `time.monotonic`, or the other side has
    hung up."""
    sock.settimeout(max(0.001, deadline - monotonic()))
    try:
        sock.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return False
    except OSError:
        pass  # `receive` says so
    return True


def receive(sock: socket.socket, deadline: float | None = None) -> Frame:
    """Reads one frame. `deadline`, in seconds of `time.monotonic`, covers the whole frame.

    Raises ChannelClosedError, DeadlineExceededError or ChannelError.
    """
    header_size, body_size = LENGTHS.unpack(_read(sock, LENGTHS.size, deadline))
    if header_size > MAX_HEADER or body_size > MAX_BODY:
        raise ChannelError("a frame announces more bytes than the size limit")
    return decode(_read(sock, header_size, deadline), _read(sock, body_size, deadline))


def _read(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        if deadline is not None:
            left = deadline - monotonic()
            if left <= 0:
                raise DeadlineExceededError("no answer in time")
            sock.settimeout(left)
        try:
            part = sock.recv(min(size - len(parts), 1 << 20))
        except TimeoutError:
            raise DeadlineExceededError("no answer in time") from None
        except OSError as error:
            raise ChannelClosedError(str(error)) from None
        if not part:
            raise ChannelClosedError("the other side has closed the channel")
        parts += part
    return bytes(parts)
