"""Tasks: their problems, what is held out, and the programs that verify answers."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.config import Config
from harness.data.arithmetic import is_held_out
from harness.data.dialogues import open_template
from harness.data.tokenizer import get_tokenizer
from harness.errors import PieceError, UsageError
from harness.run.tasks import Prompt, Task, get_problems, text_task
from tests.conftest import ROOT
from tests.harness.conftest import TINY

pytestmark = pytest.mark.fast
SETTINGS = replace(TINY, prompt_tokens=100, context=200, tokenizer="bytes")


def task(name: str, config: Config = SETTINGS) -> Task:
    return text_task(get_problems(name), config, get_tokenizer("bytes"))


def drawn(name: str, number: int, update: int = 0, config: Config = SETTINGS) -> list[Prompt]:
    return task(name, config).draw(np.random.default_rng((0, update)), number)


def held_out(task: Task, number: int) -> list[Prompt]:
    assert task.held_out
    return task.held_out(number)


@pytest.mark.parametrize("name", ["arithmetic", "tools", "countdown"])
def test_held_out_problems_are_never_drawn_and_all_differ(name: str) -> None:
    trained = {prompt.text for update in range(20) for prompt in drawn(name, 50, update)}
    kept = [prompt.text for prompt in held_out(task(name), 200)]
    assert len({*kept}) == 200
    assert not trained & {*kept}
    assert drawn(name, 5, 3) == drawn(name, 5, 3) != drawn(name, 5, 4)
    assert held_out(task(name), 5) == held_out(task(name), 5)


def test_sums_in_another_order_are_on_the_same_side() -> None:
    problems = get_problems("arithmetic")
    names = {problem.name for problem in (problems.draw(random.Random(seed)) for seed in range(200))}
    assert all(a <= b for a, b in (map(int, name.split("+")) for name in names))
    assert 5 < sum(map(is_held_out, names)) < 40  # of about 200, one in ten; more than 4 standard deviations


def test_sums_are_verified() -> None:
    arithmetic = task("arithmetic")
    for prompt in drawn("arithmetic", 20):
        a, b = (int(word.strip("?")) for word in prompt.text.removeprefix("What is ").split(" + "))
        assert prompt.answer == a + b
        assert arithmetic.reward(prompt, f" The answer is {a + b}.", True) == 1
        assert arithmetic.reward(prompt, f" The answer is {a + b}.", False) == 0  # cut off: perhaps more digits follow
        assert arithmetic.reward(prompt, f" The answer is {a + b + 1}.", True) == 0


def test_countdown_needs_each_number_once_and_the_target() -> None:
    countdown = task("countdown")
    prompt = Prompt((1,), "", ([3, 5, 7], 22))
    right = {"3*5+7": 1, "7 + 5*3 = 22": 1, "22": 0, "5+17": 0, "3*5+7+0": 0, "3*7+1": 0, "3*5-7": 0, "3*5+5+7-5": 0}
    assert {text: countdown.reward(prompt, text, True) for text in right} == right
    for drawn_prompt in drawn("countdown", 50):
        numbers, target = drawn_prompt.answer
        assert 1 <= target <= 100
        assert _can_be_made(numbers, target)


def _can_be_made(numbers: list[int], target: int) -> bool:
    """Whether some expression gives the target, by trying all."""
    if len(numbers) == 1:
        return numbers[0] == target
    pairs = [(i, j) for i in range(len(numbers)) for j in range(len(numbers)) if i != j]
    for i, j in pairs:
        rest = [number for index, number in enumerate(numbers) if index not in (i, j)]
        a, b = numbers[i], numbers[j]
        if any(_can_be_made([*rest, made], target) for made in (a + b, a - b, a * b)):
            return True
    return False


def test_problems_of_a_file_in_the_format_of_gsm8k(tmp_path: Path) -> None:
    file = tmp_path / "problems.jsonl"
    rows = [{"question": f"Q{n}", "answer": f"{n} * 2 = {2 * n}\n#### {1000 + n:,}"} for n in range(100)]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    gsm8k = task(f"gsm8k:{file}", replace(SETTINGS, system_prompt="Think.\n"))
    first, *_ = gsm8k.draw(np.random.default_rng(0), 3)
    assert first.text == f"Think.\nQ{first.answer - 1000}\n"
    assert gsm8k.reward(first, f"Hm. The answer is {first.answer}.", True) == 1
    kept = {prompt.text for prompt in held_out(gsm8k, 1000)}
    assert kept == {f"Think.\nQ{n}\n" for n in range(100) if is_held_out(f"Q{n}")}
    assert kept


FILE = """
def problem(rng):
    n = rng.randrange(1000)
    return f"Twice {n} is", 2 * n

def reward(prompt, continuation, answer):
    return 2.5 if str(answer) in continuation else 0

def has_form(continuation):
    return continuation.strip().isdecimal()
"""


def test_a_task_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    mine = task(str(file))
    (prompt,) = drawn(str(file), 1)
    assert prompt.text == f"Twice {prompt.answer // 2} is"
    assert mine.reward(prompt, f" {prompt.answer}", True) == 2.5
    assert mine.has_form is not None
    assert [mine.has_form(text) for text in (" 12", "twelve")] == [True, False]
    assert len(held_out(mine, 20)) == 20


def test_the_task_of_the_guide_works(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "reinforcement.md").read_text("utf-8")
    file = tmp_path / "mine.py"
    file.write_text(guide.partition("```python\n")[2].partition("```")[0])
    (prompt,) = drawn(str(file), 1)
    mine = task(str(file))
    assert mine.has_form is not None
    for text, reward, form in ((f" {prompt.answer}\n", 1, True), ("1x", 0, False)):
        assert (mine.reward(prompt, text, True), mine.has_form(text)) == (reward, form)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "def problem(rng):\n    return 1 / 0\ndef reward(p, c, a): return 1",
            "mine.py, line 2 failed: ZeroDivisionError",
        ),
        (
            "def problem(rng): return 'Q'\ndef reward(p, c, a): return 1",
            "`problem` of .* returned 'Q'; it must return a prompt",
        ),
        ("def problem(rng): return 'Q' * 9, 1", "has no function `reward`"),
        (
            "def problem(rng): return 'Hold me out 11', 1\ndef reward(p, c, a): return 1",
            "All problems of the task are held out",
        ),
        ("def problem(rng): return 'Q' * 101, 1\ndef reward(p, c, a): return 1", r"--set prompt_tokens=101"),
    ],
)
def test_a_broken_task_says_what_is_wrong(tmp_path: Path, body: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(body)
    with pytest.raises((PieceError, UsageError), match=message):
        drawn(str(tmp_path / "mine.py"), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("", "has no problems"),
        ("{}", 'line 1 is not a record with "question" and "answer" .KeyError'),
        ('{"question": "Q", "answer": "none"}', "line 1: its answer has no number after ####"),
        ("[1]", "line 1 is not a record"),
    ],
)
def test_a_broken_file_of_problems_says_where(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "problems.jsonl"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=message):
        get_problems(f"gsm8k:{file}")


@pytest.mark.parametrize("name", ["", "sums", "gsm8k", "mine.txt", "arithmetic:3"])
def test_an_unknown_task_lists_the_forms(name: str) -> None:
    with pytest.raises(UsageError, match=r"write arithmetic, tools, countdown, gsm8k:FILE.jsonl, or FILE.py"):
        get_problems(name)


def test_questions_are_asked_by_the_chat_template():
    config, tokenizer = replace(SETTINGS, system_prompt="Be brief."), get_tokenizer("bytes")
    asked = text_task(get_problems("arithmetic"), config, tokenizer, open_template("plain", tokenizer))
    (prompt,) = asked.draw(np.random.default_rng(0), 1)
    question = prompt.text.removeprefix("Be brief.")
    assert tokenizer.decode([*prompt.ids]) == f"Be brief.\nUser: {question}\nAssistant:"
