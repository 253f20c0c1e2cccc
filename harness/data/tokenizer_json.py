"""Byte-level BPE as tokenizer.json, the format of Hugging Face's tokenizers: written from a tiktoken encoding, and read
as one.

In tiktoken, the rank of a token is its id, and two tokens merge into the one of the lowest rank. In tokenizer.json, a
list of merges has this role. Both give the same ids if the merges are in the order of the ids that they result in and,
for each token, contain the pair that its bytes end in: no other pair with these bytes occurs, because merging inside of
a token ignores its neighbors.
"""

import base64
import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import tiktoken

from harness.data.known_fields import unknown_fields
from harness.data.model_files import read_json
from harness.errors import UsageError

END_OF_TEXT = "<|endoftext|>"
SPLIT_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # GPT-2's
_TIKTOKEN_PATTERN = (
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"  # of `gpt2`; equal
)
LONGEST = 1024  # bytes of a token whose merges are looked for, which takes their square
MOST_IDS = (1 << 24) - 1  # the largest vocabularies have some 300,000 tokens
# SHA-256 of the .tiktoken files of tokenizers that have a name
_NAMES = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "gpt2",  # r50k_base of openai_public.py
    "afe4f1c94b9d70232deee84357dd4bdf418528c518cde58219f41b1e9aaee7fd": "pocket-2k",
}

Pair = tuple[bytes, bytes]


def _characters() -> list[str]:
    """The character that stands for each byte in a vocabulary: itself if it is printable, otherwise one above 255
    (GPT-2)."""
    printable = [byte for byte in range(256) if chr(byte).isprintable() and chr(byte) != " "]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


_CHARACTERS = _characters()
_BYTES = {character: byte for byte, character in enumerate(_CHARACTERS)}


def _spelled(token: bytes) -> str:
    return "".join(_CHARACTERS[byte] for byte in token)


def unspelled(text: str) -> bytes:
    """The bytes that the characters of a token stand for. Raises KeyError for a character that stands for none."""
    return bytes(_BYTES[character] for character in text)


def last_merge(token: bytes, ranks: dict[bytes, int]) -> Pair | None:
    """The pair that merges into `token`, by the merges of lower rank; None if these do not lead to a pair."""
    parts, rank = [token[i : i + 1] for i in range(len(token))], ranks[token]
    while len(parts) > 2:
        best, index = min((ranks.get(a + b, rank), i) for i, (a, b) in enumerate(pairwise(parts)))
        if best >= rank:
            return None
        parts[index : index + 2] = [parts[index] + parts[index + 1]]
    return (parts[0], parts[1])


def to_json(tokenizer: tiktoken.Encoding) -> dict[str, Any]:
    """The content of tokenizer.json for an encoding whose ranks are those of trained merges, as are all of the
    harness."""
    tokens = tokenizer.token_byte_values()
    ranks = dict(sorted(((token, tokenizer.encode_single_token(token)) for token in tokens), key=lambda item: item[1]))
    merges = [last_merge(token, ranks) for token in ranks if len(token) > 1]
    pattern: str = tokenizer._pat_str
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    pre_tokenizer: dict[str, Any] = byte_level
    if pattern not in (SPLIT_PATTERN, _TIKTOKEN_PATTERN):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        pre_tokenizer = {"type": "Sequence", "pretokenizers": [split, {**byte_level, "use_regex": False}]}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": pre_tokenizer,
        "post_processor": None, "decoder": byte_level,
        "added_tokens": [
            {"id": tokenizer.encode_single_token(text), "content": text, **special}
            for text in sorted(tokenizer.special_tokens_set, key=tokenizer.encode_single_token)
        ],
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {_spelled(token): rank for token, rank in ranks.items()},
            "merges": [[_spelled(pair[0]), _spelled(pair[1])] for pair in merges if pair],
        },
    }  # fmt: skip


def read_tokenizer(folder: Path) -> tiktoken.Encoding:
    """The encoding of a folder with tokenizer.json, named after its content: `pocket-2k`, `gpt2`, or `hf-` and a
    digest.

    Raises UsageError for a folder without it, UnsupportedError for a tokenizer that is not byte-level BPE or does more
    than that.
    """
    file = folder / "tokenizer.json"
    try:
        content = read_json(file)
        pattern, ranks = _pattern(content["pre_tokenizer"]), _ranks(content)
        special = _all_special(content, folder)
        check_ids([*ranks.values(), *special.values()])
        begin, after = around_texts(content.get("post_processor"))
        if unknown := {*begin, *after} - {*ranks.values(), *special.values()}:
            raise ValueError(f"its post_processor adds the id {min(unknown)}, which no token has")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{file} is not a tokenizer ({type(error).__name__}: {error}).") from error
    lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    name = _NAMES.get(hashlib.sha256(lines.encode()).hexdigest())
    around = f"{begin}{after}" if begin or after else ""
    if name is None or pattern != SPLIT_PATTERN or special != {END_OF_TEXT: len(ranks)} or around:
        described = f"{lines}{pattern}{sorted(special.items())}{around}"
        name = "hf-" + hashlib.sha256(described.encode()).hexdigest()[:12]
    try:
        tokenizer = FileTokenizer(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    except ValueError as error:  # a pattern that is not a regular expression
        raise UsageError(f"{file} is not a tokenizer ({type(error).__name__}: {error}).") from error
    tokenizer.begin, tokenizer.after = begin, after
    return tokenizer


_ADDS_NOTHING: dict[str, Any] = {"type": "ByteLevel"}  # it changes offsets only


def around_texts(processor: dict[str, Any] | None) -> tuple[list[int], list[int]]:
    """The ids that a post-processor puts before a text, and those after it. (What it does with two texts, with offsets
    and with types does not matter.)"""
    processor = processor or _ADDS_NOTHING
    kind = processor["type"]
    if kind == "ByteLevel":
        return [], []
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [processor["cls"][1]], [processor["sep"][1]]
    if kind == "Sequence":
        every = [around_texts(each) for each in processor["processors"]]
        return [token for begin, _ in reversed(every) for token in begin], [
            token for _, after in every for token in after
        ]
    if kind != "TemplateProcessing":
        raise UnsupportedError(f"has a post_processor of the type {kind}")
    pieces = processor["single"]
    places = [place for place, piece in enumerate(pieces) if "Sequence" in piece]
    if len(places) != 1:
        raise ValueError("its post_processor does not write each text once")
    special = processor["special_tokens"]
    begin, after = (
        [token for piece in some for token in special[piece["SpecialToken"]["id"]]["ids"]]
        for some in (pieces[: places[0]], pieces[places[0] + 1 :])
    )
    return begin, after


def check_ids(ids: list[int]) -> None:
    """Raises ValueError unless each token has an id of its own that some vocabulary could have: arrays have so many
    places."""
    if len(set(ids)) < len(ids):
        raise ValueError("two tokens have the same id")
    if not all(isinstance(token, int) and 0 <= token <= MOST_IDS for token in ids):
        raise ValueError(f"the ids of tokens must be whole numbers up to {MOST_IDS:,}")


class UnsupportedError(Exception):
    """What a tokenizer does that tiktoken does not, as the predicate of a sentence."""


class FileTokenizer(tiktoken.Encoding):
    """The tokenizer of a file, which puts the ids `begin` before each text and `after` after it, such as that of
    `<s>`."""

    begin: list[int]
    after: list[int]


def _ranks(content: dict[str, Any]) -> dict[bytes, int]:
    """The ranks of the vocabulary, in order, after a check that its merges do what they do in tiktoken."""
    model, added = content["model"], content.get("added_tokens") or []
    if content.get("normalizer"):
        raise UnsupportedError("normalizes text")
    for part, every in (("", [content]), (": model", [model]), (": added_tokens", added)):
        if unknown := [name for each in every for name in unknown_fields(each, f"tokenizer.json{part}")]:
            raise UnsupportedError(f"has the field {unknown[0]}")
    ranks, merges = _vocabulary(model, {token["content"] for token in added})
    if max(map(len, ranks), default=0) > LONGEST:
        raise UnsupportedError(f"has a token of more than {LONGEST} bytes")
    results = [ranks[first + second] for first, second in merges]
    last = {last_merge(token, ranks) for token in ranks if len(token) > 1}
    if results != sorted(results) or not last <= set(merges):
        raise UnsupportedError("merges tokens in another order than that of their ids")
    if not all(bytes([byte]) in ranks for byte in range(256)):
        raise UnsupportedError("lacks some bytes")
    return ranks


def _vocabulary(model: dict[str, Any], added: set[str]) -> tuple[dict[bytes, int], list[tuple[bytes, bytes]]]:
    """The ranks of the tokens that are not `added`, in order, and the merges."""
    try:
        if model.get("type", "BPE") != "BPE":
            raise UnsupportedError("is not BPE")
        ids = {unspelled(text): rank for text, rank in model["vocab"].items() if text not in added}
        pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
        merges = [(unspelled(first), unspelled(second)) for first, second in pairs]
    except KeyError as error:
        raise UnsupportedError(f"has the character {error} in its vocabulary") from error
    return dict(sorted(ids.items(), key=lambda item: item[1])), merges


def _pattern(pre_tokenizer: dict[str, Any] | None) -> str:
    """The pattern that splits a text into words."""
    steps = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer])
    *before, last = steps
    if not last or last["type"] != "ByteLevel" or last.get("add_prefix_space", True):
        raise UnsupportedError("splits text in another way")
    if not before and last.get("use_regex", True):
        return SPLIT_PATTERN
    splits = len(before) == 1 and before[0]["type"] == "Split" and "Regex" in before[0]["pattern"]
    if not splits or last.get("use_regex", True) or before[0]["behavior"] != "Isolated" or before[0].get("invert"):
        raise UnsupportedError("splits text in another way")
    return str(before[0]["pattern"]["Regex"])


def _all_special(content: dict[str, Any], folder: Path) -> dict[str, int]:
    if not all(token["special"] for token in content.get("added_tokens") or []):
        raise UnsupportedError("adds tokens that are not special")
    return special_tokens(content, folder)


def tokenizer_config(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json says, if there is one. Special tokens are those of special_tokens_map.json where, as
    in transformers, the file is from before it listed all added tokens itself."""
    config, older = (
        read_json(folder / name) if (folder / name).exists() else {}
        for name in ("tokenizer_config.json", "special_tokens_map.json")
    )
    return config if "added_tokens_decoder" in config else {**config, **older}


def special_tokens(content: dict[str, Any], folder: Path) -> dict[str, int]:
    """The special tokens. The one that ends a text is called `<|endoftext|>`, whatever `tokenizer_config.json` calls
    it.

    Raises UnsupportedError if no file names one.
    """
    added = [token for token in content.get("added_tokens") or [] if token["special"]]
    special = {str(token["content"]): int(token["id"]) for token in added}
    if END_OF_TEXT not in special:
        end = tokenizer_config(folder).get("eos_token")
        end = end["content"] if isinstance(end, dict) else end
        if end in special:
            special[END_OF_TEXT] = special.pop(end)
    if END_OF_TEXT not in special:
        raise UnsupportedError("has no token that ends a text (eos_token in tokenizer_config.json)")
    return special
