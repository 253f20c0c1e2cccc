"""Tokenizers of all kinds, made and checked with the package `tokenizers` itself."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.config import Config
from harness.data.batches import make_windows
from harness.data.package_tokenizer import PackageTokenizer, begin_of
from harness.data.pocket import stories
from harness.data.prepared import open_sources
from harness.data.token_files import prepare
from harness.data.tokenizer import get_tokenizer, token_bytes
from harness.data.tokenizer_json import END_OF_TEXT, to_json
from harness.errors import UsageError
from harness.hugging_face.export import write_model
from harness.model.sampling import stream_text
from tests.harness.hugging_face.models import LAYOUTS, filled

tokenizers = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = list(stories(200))
TEXT = f"{TEXTS[3]} The cafés cost 42 ☃!\n\n {TEXTS[4]}"
SPECIAL = ["<unk>", "<s>", "</s>"]


def sentencepiece_bpe() -> Any:
    """BPE as in Llama 2 and Gemma: words joined by ▁, and a token for each byte that no other token has."""
    trained = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    texts = [
        *SPECIAL,
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *(text for text in model["vocab"] if text not in SPECIAL),
    ]
    vocab = {text: token for token, text in enumerate(texts)}
    merges = [tuple(pair) for pair in model["merges"]]
    made = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = trained.normalizer
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    made.add_special_tokens(SPECIAL)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocab["<s>"])])
    return made


def unigram() -> Any:
    """As in T5."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    return made


def wordpiece() -> Any:
    """As in BERT."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    made.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 1))
    return made


def normalized_bytes() -> Any:
    """Byte-level BPE that first normalizes, and has a token that is not special, as in Qwen."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer, made.decoder = normalizers.NFC(), decoders.ByteLevel()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["</s>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    made.add_tokens(["<tool>"])
    return made


KINDS: dict[str, Callable[[], Any]] = {
    "BPE with byte "
    "fallback": sentencepiece_bpe, "Unigram": unigram, "WordPiece": wordpiece, "normalized": normalized_bytes,
}  # fmt: skip


def written(made: Any, folder: Path, end: str = "</s>") -> str:
    """Writes a tokenizer as transformers does, and returns its name."""
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": end, "bos_token": "<s>"}))
    return f"hf:{folder}"


@pytest.fixture(scope="module", params=KINDS)
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A tokenizer of the package, and as the harness reads it."""
    made = KINDS[request.param]()
    return made, get_tokenizer(written(made, tmp_path_factory.mktemp("tokenizer")))


def test_ids_are_those_of_the_package(read: tuple[Any, Any]) -> None:
    made, ours = read
    assert isinstance(ours, PackageTokenizer)
    ids = made.encode(TEXT, add_special_tokens=False).ids
    assert ours.encode_ordinary(TEXT) == ids
    assert ours.encode_ordinary_batch([TEXT, "", "a"]) == [ids, [], made.encode("a", add_special_tokens=False).ids]
    assert ours.n_vocab == made.get_vocab_size() > max(ids)
    assert ours.name.startswith("hf-")


def test_a_stream_of_tokens_is_the_text(read: tuple[Any, Any]) -> None:
    made, ours = read
    ids = made.encode(TEXT, add_special_tokens=False).ids
    streamed = "".join(stream_text(ours, iter(ids)))
    assert streamed.removeprefix(" ") == made.decode(ids, skip_special_tokens=False)
    assert ours.decode(ids) == streamed
    if made.token_to_id("<0xE2>") is not None or ours.content.count("ByteLevel"):
        assert "☃" in streamed


def test_the_end_of_a_text_has_its_own_name(read: tuple[Any, Any]) -> None:
    made, ours = read
    end = made.token_to_id("</s>")
    assert (ours.eot_token, ours.encode_single_token(END_OF_TEXT), ours.decode([end])) == (end, end, END_OF_TEXT)
    assert ours.encode(f"a{END_OF_TEXT}", allowed_special="all")[-1] == end
    if type(made.model) is not models.Unigram:
        assert end not in ours.encode_ordinary("a </s>")
    assert end not in ours.encode_ordinary(f"a{END_OF_TEXT}")
    assert ours.encode("a") == ours.encode_ordinary("a")
    with pytest.raises(ValueError, match=r"special token '<\|endoftext\|>', which is not allowed"):
        ours.encode(f"a{END_OF_TEXT}")
    assert END_OF_TEXT in ours.special_tokens_set
    with pytest.raises(KeyError):
        ours.decode_single_token_bytes(ours.n_vocab)


def test_what_stands_before_a_text(tmp_path: Path) -> None:
    ours = get_tokenizer(written(sentencepiece_bpe(), tmp_path / "llama"))
    assert begin_of(ours) == [1]
    assert begin_of(get_tokenizer(written(wordpiece(), tmp_path / "bert"))) == [1]  # and not what it puts after one
    assert begin_of(get_tokenizer(written(unigram(), tmp_path / "t5"))) == []
    assert begin_of(get_tokenizer("pocket-2k")) == []
    assert token_bytes(ours)[[1, 2, 3 + 0xE2]].tolist() == [0, 0, 1]
    data = tmp_path / "texts.jsonl"
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:40]))
    prepared = prepared_of(data, ours)
    starts = [0, *prepared.train.ends[:-1].tolist()]
    assert [prepared.train[start : start + 1].item() for start in starts] == [1] * len(starts)


def prepared_of(data: Path, tokenizer: Any) -> Any:
    (source,) = open_sources(replace(Config(), data=str(data), validation_fraction=0.2))
    return prepare(source, tokenizer, quiet=True)


def test_more_tokens_than_16_bits_can_name(tmp_path: Path) -> None:
    words = [*SPECIAL, *(f"w{number}" for number in range(70_000))]
    made = tokenizers.Tokenizer(models.WordLevel({word: token for token, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(SPECIAL)
    ours = get_tokenizer(written(made, tmp_path / "large"))
    assert ours.n_vocab == 70_003
    rng = np.random.default_rng(0)
    drawn = rng.integers(60_000, 70_000, (60, 20))
    data = tmp_path / "texts.jsonl"
    data.write_text("".join(json.dumps({"text": " ".join(f"w{word}" for word in row)}) + "\n" for row in drawn))
    prepared = prepared_of(data, ours)
    assert prepared.train.files[0].dtype == np.uint32
    assert prepared.max_id == 3 + drawn.max() > 65_535
    ends = [0, *prepared.train.ends.tolist()]
    rows = {tuple(prepared.train[start:stop].tolist()) for start, stop in pairwise(ends)}
    assert rows <= {(*(row + 3).tolist(), 2) for row in drawn}
    windows = make_windows(replace(Config(), context=16, vocab_size=70_003), prepared.train)
    assert max(int(np.max(windows[index])) for index in range(len(windows))) > 65_535


def test_an_export_keeps_the_file(tmp_path: Path) -> None:
    made = sentencepiece_bpe()
    name = written(made, tmp_path / "in")
    config = replace(LAYOUTS["Llama"], tokenizer=name, vocab_size=get_tokenizer(name).n_vocab)
    (tmp_path / "out").mkdir()
    write_model(config, get_tokenizer(name), filled(config), tmp_path / "out")
    assert get_tokenizer(f"hf:{tmp_path / 'out'}").encode_ordinary(TEXT) == get_tokenizer(name).encode_ordinary(TEXT)
    assert json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())["eos_token"] == "</s>"


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    name = written(unigram(), tmp_path, end="<none>")
    with pytest.raises(UsageError, match="has no token that ends a text"):
        get_tokenizer(name)
    content = {**to_json(get_tokenizer("pocket-2k")), "normalizer": {"type": "Nothing"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match="json is not a tokenizer"):
        get_tokenizer(name)
