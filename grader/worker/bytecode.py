"""The operations of a StableHLO program, read from its MLIR bytecode in pure Python.

A submission's process made these bytes, so they are read before any native parser sees them. MLIR's bytecode lists the
names of all operations and all strings in sections of their own, so a program cannot name an operation or a custom call
elsewhere. See the "MLIR Bytecode Format" on mlir.llvm.org.
"""

from dataclasses import dataclass

MAGIC = b"ML\xefR"
_STRINGS, _DIALECTS, _RESOURCES = 0, 1, 5
_VERSIONS = range(5, 7)  # from native properties on; a newer JAX may need more


class BytecodeError(Exception):
    """The bytes are not a program in MLIR bytecode. The message gives the place."""


@dataclass(frozen=True)
class Contents:
    """The operations of a program as `dialect.name`, and all its strings: names of functions, of attributes, of custom
    calls."""

    operations: frozenset[str]
    strings: frozenset[str]


class _Reader:
    """A position in bytes. Raises BytecodeError instead of reading past the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self.data):
            raise BytecodeError("it ends too early")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self) -> int:
        """Returns a variable-length integer: the number of trailing zeros of the first byte is the number of further
        bytes."""
        first = self.take(1)[0]
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        more = (first & -first).bit_length() - 1
        return int.from_bytes(bytes([first]) + self.take(more), "little") >> (more + 1)


def contents(data: bytes) -> Contents:
    """Returns the operations and strings of a program. Raises BytecodeError."""
    reader = _Reader(data)
    if reader.take(4) != MAGIC:
        raise BytecodeError("it does not start like MLIR bytecode")
    if (version := reader.number()) not in _VERSIONS:
        raise BytecodeError(f"its bytecode version is {version}")
    end = data.find(b"\0", reader.position)  # the producer's name
    if end < 0:
        raise BytecodeError("it ends too early")
    reader.position = end + 1
    sections: dict[int, bytes] = {}
    while reader.position < len(data):
        kind, section = _section(reader)
        if kind in sections:
            raise BytecodeError("it has two sections of the same kind")
        sections[kind] = section
    if _STRINGS not in sections or _DIALECTS not in sections:
        raise BytecodeError("it has no table of operations")
    if sections.get(_RESOURCES):
        raise BytecodeError("it has resources")
    strings = _strings(_Reader(sections[_STRINGS]))
    return Contents(_operations(_Reader(sections[_DIALECTS]), strings), frozenset(strings))


def _section(reader: _Reader) -> tuple[int, bytes]:
    kind, size = reader.take(1)[0], reader.number()
    if kind & 0x80:  # padding up to an alignment follows
        alignment = reader.number()
        if not alignment or alignment & (alignment - 1):
            raise BytecodeError("a section's alignment is not a power of two")
        reader.take(-reader.position % alignment)
    return kind & 0x7F, reader.take(size)


def _strings(reader: _Reader) -> list[str]:
    count = reader.number()
    if count > len(reader.data):
        raise BytecodeError("it has more strings than bytes")
    sizes = [reader.number() for _ in range(count)][::-1]  # stored in reverse
    texts = [reader.take(size) for size in sizes]
    if any(not text.endswith(b"\0") for text in texts):
        raise BytecodeError("a string does not end")
    return [text[:-1].decode("utf-8", "surrogateescape") for text in texts]


def _operations(reader: _Reader, strings: list[str]) -> frozenset[str]:
    def string(index: int) -> str:
        if index >= len(strings):
            raise BytecodeError("a name is missing")
        return strings[index]

    dialects = []
    for _ in range(reader.number()):
        name = reader.number()
        dialects.append(string(name >> 1))
        if name & 1:  # a version follows, in a section of its own
            _section(reader)
    reader.number()  # the number of all operations
    operations = set()
    while reader.position < len(reader.data):
        dialect, count = reader.number(), reader.number()
        if dialect >= len(dialects):
            raise BytecodeError("a dialect is missing")
        for _ in range(count):
            operations.add(f"{dialects[dialect]}.{string(reader.number() >> 1)}")
    return frozenset(operations)
