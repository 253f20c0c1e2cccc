"""tokenizer.json: the same ids after a round trip, and refusals of what tiktoken does not do."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiktoken

from harness.config import Config
from harness.data import tokenizer
from harness.data.package_tokenizer import begin_of, end_of
from harness.data.pocket import story
from harness.data.prepared import open_sources
from harness.data.token_files import prepare
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT, SPLIT_PATTERN, last_merge, to_json
from harness.errors import UsageError

POCKET = get_tokenizer("pocket-2k")
DIGITS = r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+"


def like_gpt2() -> tiktoken.Encoding:
    """A tokenizer whose bytes have GPT-2's order, printable ones first, and other special tokens."""
    order = [byte for byte in range(256) if chr(byte).isprintable() and chr(byte) != " "]
    order += [byte for byte in range(256) if byte not in order]
    ranks = {bytes([byte]): rank for rank, byte in enumerate(order)}
    for word in (b" a", b"th", b" th", b"\xc3\xa9", b"\n\n", b" the"):
        assert last_merge(word, {**ranks, word: len(ranks)})
        ranks[word] = len(ranks)
    special = {END_OF_TEXT: len(ranks) + 4, "<|other|>": len(ranks)}
    return tiktoken.Encoding("other", pat_str=DIGITS, mergeable_ranks=ranks, special_tokens=special)


def written(tokenizer: tiktoken.Encoding, folder: Path, change: Callable[[Any], Any] = lambda content: None) -> str:
    """Writes tokenizer.json, and returns the name of the tokenizer in the folder."""
    content = to_json(tokenizer)
    change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return f"hf:{folder}"


def test_pocket_is_recognized(tmp_path: Path) -> None:
    read = get_tokenizer(written(POCKET, tmp_path))
    assert read.name == "pocket-2k"
    text = f"{story(3)}{END_OF_TEXT}\n\n {story(4)} café's 42 ☃"
    assert read.encode(text, allowed_special="all") == POCKET.encode(text, allowed_special="all")


def test_other_tokenizers_are_named_after_their_content(tmp_path: Path) -> None:
    original = like_gpt2()
    read = get_tokenizer(written(original, tmp_path))
    assert read.name.startswith("hf-")
    assert (read.n_vocab, read.eot_token) == (original.n_vocab, original.eot_token)
    text = f"the 2024 cafés<|other|> at a\n\nthat{END_OF_TEXT} \t end"
    assert read.encode(text, allowed_special="all") == original.encode(text, allowed_special="all")
    assert read.decode(read.encode(text, allowed_special="all")) == text


def test_the_token_that_ends_a_text_may_have_another_name(tmp_path: Path) -> None:
    def rename(content: dict[str, Any]) -> None:
        content["added_tokens"][0]["content"] = "</s>"

    name = written(POCKET, tmp_path, rename)
    with pytest.raises(UsageError, match="has no token that ends a text"):
        get_tokenizer(name)
    for end in ("</s>", {"content": "</s>"}):
        tokenizer._from_folder.cache_clear()
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
        assert get_tokenizer(name).eot_token == POCKET.eot_token


_OTHER, _END = ["<|other|>", 262], [END_OF_TEXT, 266]


def template(*parts: str) -> dict[str, Any]:
    pieces = [{"Sequence": {"id": part, "type_id": 0}} if part in "AB" else {"SpecialToken": {"id": part, "type_id": 0}}
              for part in parts]  # fmt: skip
    special = {text: {"id": text, "ids": [number], "tokens": [text]} for text, number in (_OTHER, _END)}
    pair = [{"Sequence": {"id": each, "type_id": 0}} for each in "AB"]
    return {"type": "TemplateProcessing", "single": pieces, "pair": pair, "special_tokens": special}


_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
_PAIR = {"sep": _END, "cls": _OTHER}
PROCESSORS: dict[str, Any] = {
    "none": None,
    "byte level": _BYTE_LEVEL,
    "before": template("<|other|>", "A"),
    "two before": template("<|other|>", END_OF_TEXT, "A"),
    "before and after": template("<|other|>", "A", END_OF_TEXT),
    "after": template("A", "<|other|>"),
    "Llama 3": {"type": "Sequence", "processors": [_BYTE_LEVEL, template("<|other|>", "A")]},
    "bytes last": {"type": "Sequence", "processors": [template("<|other|>", "A", "<|other|>"), _BYTE_LEVEL]},
    "RoBERTa": {"type": "RobertaProcessing", **_PAIR, "trim_offsets": True, "add_prefix_space": False},
    "BERT": {"type": "BertProcessing", **_PAIR},
}  # fmt: skip


@pytest.mark.parametrize("name", PROCESSORS)
def test_what_a_file_puts_around_a_text(name: str, tmp_path: Path) -> None:
    """Each text has the ids that the package gives it, and the end of a text as the last one."""
    package = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    ours = get_tokenizer(
        written(like_gpt2(), tmp_path, lambda content: content.update(post_processor=PROCESSORS[name]))
    )
    expected = package.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("the 24th").ids
    whole = [*begin_of(ours), *ours.encode_ordinary("the 24th"), *end_of(ours)]
    assert whole == (expected if expected[-1] == ours.eot_token else [*expected, ours.eot_token])
    plain = name in ("none", "byte level")
    assert (
        ours.name == get_tokenizer(written(like_gpt2(), folder_in(tmp_path))).name
    ) is plain  # tokens are cached by it
    data = tmp_path / "text.txt"
    data.write_text("the 24th<|endoftext|>" * 9 + "that")
    (source,) = open_sources(replace(Config(), data=str(data), validation_fraction=0.2))
    train = prepare(source, ours, quiet=True).train
    assert train[slice(0, int(train.ends[0]))].tolist() == whole


def folder_in(folder: Path) -> Path:
    (folder / "plain").mkdir()
    return folder / "plain"


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (template("A", "A"), "does not write each text once"),
        (template("<|other|>"), "does not write each text once"),
        ({**template("<|other|>", "A"), "special_tokens": {}}, "is not a tokenizer"),
        ({"type": "BertProcessing", "cls": ["x", 999], "sep": _END}, "adds the id 999, which no token has"),
        ({"type": "New"}, "is not a tokenizer"),
    ],
)
def test_what_a_file_may_not_put_around_a_text(processor: Any, message: str, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    name = written(like_gpt2(), tmp_path, lambda content: content.update(post_processor=processor))
    with pytest.raises(UsageError, match=message):
        get_tokenizer(name)


def test_a_tokenizer_with_a_beginning_is_not_one_without(tmp_path: Path) -> None:
    """The vocabulary of `pocket-2k`, with its end also before each text."""
    end = {"id": END_OF_TEXT, "ids": [POCKET.eot_token], "tokens": [END_OF_TEXT]}
    processor = {**template(END_OF_TEXT, "A"), "special_tokens": {END_OF_TEXT: end}}
    read = get_tokenizer(written(POCKET, tmp_path, lambda content: content.update(post_processor=processor)))
    assert read.name.startswith("hf-")
    assert begin_of(read) == [POCKET.eot_token]


def test_old_files_write_merges_as_text(tmp_path: Path) -> None:
    def join(content: dict[str, Any]) -> None:
        content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]

    assert get_tokenizer(written(POCKET, tmp_path, join)).name == "pocket-2k"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["model"].update(type="Unigram"),
            "tokenizer.json is not BPE, which needs the package `tokenizers`: run `.*tokenizers`",
        ),
        (lambda c: c.update(normalizer={"type": "NFC"}), "json normalizes text"),
        (lambda c: c.update(pre_tokenizer={"type": "Metaspace"}), "json splits text in another way"),
        (lambda c: c["pre_tokenizer"].update(add_prefix_space=True), "json splits text in another way"),
        (
            lambda c: c["added_tokens"].append({"id": 9, "content": "<x>", "special": False}),
            "adds tokens that are not special",
        ),
        (lambda c: c["model"]["merges"].reverse(), "merges tokens in another order"),
        (lambda c: c["model"]["merges"].pop(), "merges tokens in another order"),
        (lambda c: c["model"]["vocab"].update({"▁x": 5000}), "has the character '▁' in its vocabulary"),
        (lambda c: c.pop("model"), r"is not a tokenizer \(KeyError"),
    ],
)
def test_what_tiktoken_does_not_do_needs_the_package(
    change: Callable[[Any], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match=message):
        get_tokenizer(written(POCKET, tmp_path, change))


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tokenizer.json cannot be read: No such file"):
        get_tokenizer(f"hf:{tmp_path}")


def test_the_pattern_of_gpt2_is_that_of_byte_level(tmp_path: Path) -> None:
    assert to_json(POCKET)["pre_tokenizer"]["use_regex"]
    assert POCKET._pat_str == SPLIT_PATTERN
    assert to_json(like_gpt2())["pre_tokenizer"]["pretokenizers"][0]["pattern"] == {"Regex": DIGITS}
