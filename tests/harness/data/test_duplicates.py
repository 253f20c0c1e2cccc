"""Near-duplicates: found as problem 55 defines them, and left out by the command."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.data.duplicates import BANDS, deduplicate, hash_functions
from tests.conftest import ROOT
from tests.harness.conftest import Harness

WORDS = (
    "frog bird tree lake ball kite cake moon star rain wind snow boat bear duck fish leaf rock song door road hill"
).split()


def collection(seed: int) -> list[str]:
    """Texts of which some are copies of others with a word changed, some are equal, and some have few words or none."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, 30)) for _ in range(30)]
    for index in range(10):
        words = texts[index].split()
        words[int(rng.integers(len(words)))] = "other"
        texts.append(" ".join(words))
    texts += [texts[3].capitalize() + ".", texts[4], "two words", "Two, words!", "...", "?", "one"]
    return [texts[index] for index in rng.permutation(len(texts))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("words", "threshold"), [(2, 0.6), (5, 0.5), (1, 0.9)])
def test_the_same_texts_stay_as_by_the_reference_of_the_course(
    seed: int, words: int, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "solutions")
    monkeypatch.delitem(sys.modules, "p55_near_duplicates", raising=False)
    from p55_near_duplicates import deduplicate as reference

    texts = collection(seed)
    own = deduplicate(texts, words, *hash_functions(), BANDS, threshold)
    assert own == reference(texts, words, *hash_functions(), BANDS, threshold)
    assert len(own) < len(texts) - 2


def test_many_equal_texts_take_no_comparisons() -> None:
    assert deduplicate(["a cat sat on a mat"] * 20_000, 2, *hash_functions(), BANDS, 0.8) == [0]


def test_the_command_writes_the_texts_that_stay(harness_here: Harness, tmp_path: Path) -> None:
    source = tmp_path / "mine.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in collection(0) if text.strip(".?")))
    found = harness_here("duplicates", source, "--words", 2, "--threshold", 0.6)
    assert found.code == 0, found.err
    assert "45 texts, of which 13 are near-duplicates of others that stay." in found.out
    assert harness_here("duplicates", source, "--words", 2, "--threshold", 0.6, "--to", "kept.jsonl").code == 0
    again = harness_here("duplicates", "kept.jsonl", "--words", 2, "--threshold", 0.6)
    assert "32 texts, of which 0 are near-duplicates" in again.out
    assert harness_here("duplicates", source, "--words", 2, "--threshold", 0.6, "--to", "kept.txt").code == 0
    assert "32 texts, of which 0 are" in harness_here("duplicates", "kept.txt", "--words", 2, "--threshold", 0.6).out
    refused = harness_here("duplicates", source, "--to", "kept.txt")
    assert (refused.code, "already exists" in refused.err) == (2, True)


def test_dialogues_stay_dialogues(harness_here: Harness, tmp_path: Path) -> None:
    said = [{"role": "user", "content": "What does the cow say?"}, {"role": "assistant", "content": "It says moo."}]
    other = [{"role": "user", "content": "Who sings best here?"}, {"role": "assistant", "content": "That is the bird."}]
    source = tmp_path / "chat.jsonl"
    source.write_text("".join(json.dumps({"messages": each, "id": number}) + "\n"
                              for number, each in enumerate([said, other, said])))  # fmt: skip
    run = harness_here("duplicates", source, "--field", "messages", "--to", "kept.jsonl")
    assert run.code == 0, run.err
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert kept == [{"messages": said}, {"messages": other}]


def test_the_piece_decides(harness_here: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "attempts"
    folder.mkdir()
    piece = (ROOT / "solutions" / "p55_near_duplicates.py").read_text()
    (folder / "p55_near_duplicates.py").write_text(piece)
    source = tmp_path / "mine.txt"
    source.write_text("<|endoftext|>".join(["a cat sat on it", "a dog ran", "a cat sat on it"]))
    sys.modules.pop("p55_near_duplicates", None)
    run = harness_here("duplicates", source, "--pieces", folder)
    assert run.code == 0, run.err
    assert "3 texts, of which 1 is a near-duplicate of others that stay." in run.out
    sys.modules.pop("p55_near_duplicates", None)
    (folder / "p55_near_duplicates.py").write_text(piece.replace("return sorted(", "return [] and sorted("))
    broken = harness_here("duplicates", source, "--pieces", folder)
    assert (broken.code, "deduplicate of p55_near_duplicates.py returned []" in broken.err) == (1, True), broken.err
    sys.modules.pop("p55_near_duplicates", None)
