"""Probes of problem 53: ids of words, texts and streams, and texts of ids. Run in workers."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from time import process_time
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p53_encode_decode.problem import BROKEN, GROWTH, ranks_of, special_of

# As on the page, of the CPU. The reference takes 0.1 s for the longest word, and 0.2 s for the stream. Programs whose
# work is the square take minutes in Python. The judge limits the time of a whole probe; these limits end it earlier,
# with a sentence.
SECONDS = 1.0
AHEAD = 1 << 15  # bytes, as on the page: less than those of the ids that are wanted, so nobody can join all chunks
NO_MORE, NOT_AN_ID = -1, -2


@eager
def encoding_words(subject: Subject, case: Case) -> Reading:
    """The ids of each word, and -1 after the last."""
    words = [word.encode() for word in str(case.values["words"]).split("\n")]
    rows = (_ids(subject.call("encode_word", word, ranks_of(case)), len(word) + 1, "encode_word") for word in words)
    return Reading({f"ids.{number:02}": ids for number, ids in enumerate(rows)})


@eager
def encoding(subject: Subject, case: Case) -> Reading:
    """The ids of a text, and those of an empty text."""
    text, tables = str(case.values["text"]), (ranks_of(case), special_of(case))
    found = {"ids": _ids(subject.call("encode", text, *tables), len(text.encode()) + 1, "encode")}
    return Reading({**found, "ids.of_an_empty_text": _ids(subject.call("encode", "", *tables), 1, "encode")})


@eager
def decoding(subject: Subject, case: Case) -> Reading:
    """The code points of the text of ids, and -1 after its end."""
    ranks, special = ranks_of(case), special_of(case)
    rows = str(case.values["pieces"]).split("\n")
    ids = [special[row] if row in special else ranks[bytes.fromhex(row)] for row in rows]
    text = subject.call("decode", ids, ranks, special, returns=(str, "a string"))
    empty = subject.call("decode", [], ranks, special, returns=(str, "a string"))
    most = sum(map(len, rows)) + 1  # a row has as many letters as its token, or more
    return Reading({"text": _letters(text, most), "text.of_no_ids": _letters(empty, 1)})


@eager
def streaming(subject: Subject, case: Case) -> Reading:
    """The ids of a stream: all of them, or the first ones of a stream without end."""
    data = str(case.values["text"]).encode()
    for letter, (digits, _) in BROKEN.items():
        data = data.replace(letter.encode(), bytes.fromhex(digits))
    size, wanted = int(case.values["chunk"]), case.values.get("wanted")
    tables, given_bytes = (ranks_of(case), special_of(case)), [0]
    chunks = _without_end(data, size, given_bytes) if wanted else _chunks(data, size)
    given = subject.call("encode_stream", chunks, *tables, returns=(Iterable, "an iterator of ids"))
    most = int(wanted) if wanted else 3 * len(data) + 1
    found = {"ids": _ids(_counted(islice(given, most), *tables, given_bytes), most, "encode_stream")}
    if wanted:
        return Reading(found)
    for name, stream in (("of_nothing", []), ("of_empty_chunks", [b"", b"a", b"", b"", b"b", b""])):
        given = subject.call("encode_stream", iter(stream), ranks_of(case), special_of(case))
        found[f"ids.{name}"] = _ids(islice(given, 3), 3, "encode_stream")
    return Reading(found)


@eager
def encoding_long_words(subject: Subject, case: Case) -> Reading:
    """The ids of a long word, after those of shorter ones, which must not take long."""
    letters, length, ranks = str(case.values["letters"]).encode(), int(case.values["length"]), ranks_of(case)
    for size in (*GROWTH, length):
        word, start = (letters * (size // len(letters) + 1))[:size], process_time()
        ids = subject.call("encode_word", word, ranks)
        if process_time() - start > SECONDS:
            raise BadOutputError(f"a word of {size:,} bytes takes more than {SECONDS:g} s of computing")
    return Reading({"ids": _ids(ids, length + 1, "encode_word")})


def _chunks(data: bytes, size: int) -> Iterator[bytes]:
    """The chunks of `data`. The size of every third one is 1, so that letters are cut at each of their bytes."""
    place = 0
    for number in count():
        if place >= len(data):
            return
        step = size if number % 3 else 1
        yield data[place : place + step]
        place += step


def _counted(
    ids: Iterator[Any], ranks: Mapping[bytes, int], special: Mapping[str, int], given: list[int]
) -> Iterator[Any]:
    """The ids. `given[0]` becomes the number of bytes that those up to now stand for."""
    sizes: dict[Any, int] = {number: len(token) for token, number in [*ranks.items(), *special.items()]}
    for each in ids:
        given[0] += sizes.get(each, 0) if isinstance(each, int | np.integer) else 1
        yield each


def _without_end(data: bytes, size: int, given: list[int]) -> Iterator[bytes]:
    """The chunks of `data` again and again. `given[0]` is the number of bytes whose ids were given.

    Raises BadOutputError where too much more was read, or too much computed.
    """
    start, twice = process_time(), data + data[:size]
    for number in count():
        if number * size > given[0] + AHEAD:
            raise BadOutputError(
                f"`encode_stream` has read {AHEAD >> 10} KiB of the stream beyond the part whose ids it gave"
            )
        if process_time() - start > SECONDS:
            raise BadOutputError(f"{number * size:,} bytes of the stream took more than {SECONDS:g} s of computing")
        place = number * size % len(data)
        yield twice[place : place + size]


def _letters(text: str, most: int) -> Any:
    """The code points of a text, of which at most `most` are compared, and -1 in the places after the last."""
    return np.array((list(map(ord, text)) + [NO_MORE] * most)[:most], np.int32)


def _ids(value: Any, most: int, name: str) -> Any:
    """The ids, of which at most `most` are compared, and -1 in the places after the last."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise BadOutputError(f"`{name}` returned {described(value)}; it must return ids")
    ids = list(islice(value, most))
    for each in ids:
        if isinstance(each, bool) or not (isinstance(each, int | np.integer) or getattr(each, "shape", None) == ()):
            raise BadOutputError(f"`{name}` gave {described(each)} as an id; it must be an int")
    numbers = [int(each) if 0 <= int(each) < 1 << 20 else NOT_AN_ID for each in ids]
    return np.array(numbers + [NO_MORE] * (most - len(numbers)), np.int32)


PROBES = {
    "encoding_words": encoding_words,
    "encoding": encoding,
    "decoding": decoding,
    "streaming": streaming,
    "encoding_long_words": encoding_long_words,
}
