"""Rewards: the built-in ones, and those of a file."""

from pathlib import Path

import pytest

from harness.errors import PieceError, UsageError
from harness.run.rewards import get_reward, sentences

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("spec", "continuation", "ended", "expected"),
    [
        ("word:water", "He drank Water.", False, 1),
        ("word:water", "He ate a watermelon.", True, 0),
        ("word:water", "nothing", True, 0),
        ("word:c++", "I like c++ a lot", True, 1),
        ("sentences:3", " It ran. It ate!", True, 1),
        ("sentences:3", " It ran. It ate!", False, 0),
        ("sentences:3", " It ran.", True, 0),
        ("ends", "", True, 1),
        ("ends", "The end", False, 0),
    ],
)
def test_built_in_rewards(spec: str, continuation: str, ended: bool, expected: float) -> None:
    assert get_reward(spec)("The water was cold.", continuation, ended) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("One.", 1), ('"No!" said Sam. "Why?"', 3), ("It cost 3.50 coins. Really...", 2), ("No end", 0)],
)
def test_sentences_are_counted(text: str, number: int) -> None:
    assert sentences(text) == number


def reward_file(folder: Path, body: str) -> str:
    path = folder / "mine.py"
    path.write_text(f"def score(prompt, continuation, ended):\n    {body}\n")
    return f"{path}:score"


def test_a_reward_from_a_file(tmp_path: Path) -> None:
    spec = reward_file(tmp_path, "return len(prompt) + len(continuation) + ended")
    assert get_reward(spec)("ab", "cde", True) == 6


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 / 0", r"mine.py, line 2 failed: ZeroDivisionError: division by zero"),
        ("return 'good'", "returned 'good'; it must return a finite number"),
        ("return float('nan')", "returned nan; it must return a finite number"),
        ("return None", "returned None"),
    ],
)
def test_a_broken_reward_says_where(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(PieceError, match=message):
        get_reward(reward_file(tmp_path, body))("a", "b", True)


@pytest.mark.parametrize("text", ["def score(:", "import no_such_module_at_all"])
def test_a_file_that_cannot_be_imported_says_where(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.py").write_text(text + "\n")
    with pytest.raises(PieceError, match=r"mine.py, line 1 failed"):
        get_reward(f"{tmp_path / 'mine.py'}:score")


@pytest.mark.parametrize(
    "spec", ["", "word:", "word", "sentences:0", "sentences:x", "ends:1", "nothing", "file.txt:f", "f.py:1x"]
)
def test_an_unknown_reward_lists_the_forms(spec: str) -> None:
    with pytest.raises(UsageError, match=r"write word:WORD, sentences:N, ends, or FILE.py:FUNCTION"):
        get_reward(spec)


def test_a_missing_file_or_function_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        get_reward(f"{tmp_path / 'none.py'}:score")
    with pytest.raises(UsageError, match="has no function `other`"):
        get_reward(reward_file(tmp_path, "return 1").replace(":score", ":other"))
