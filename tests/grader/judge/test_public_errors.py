"""What a report on secret cases says of the learner's own errors, and what a hostile submission cannot make it say."""

import re
from pathlib import Path

import pytest

from grader.course import cases, catalog
from grader.course.seed import read_seed
from grader.isolation.level import Isolation
from grader.isolation.sandbox import ForkServer
from grader.judge.judge import grade
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from tests.conftest import Grade

NAME = "p07_next_token_loss"
PROBLEM = catalog.load(NAME)
GOOD = catalog.solution_text(PROBLEM)
ENTRY = "def next_token_loss(logits, token_ids, pad_id):"


def numbers(seed: int) -> set[str]:
    """What a submission can learn of the cases of a seed: their shapes and scalars."""
    groups = cases.draw_all(PROBLEM, seed).values()
    values = (case.values for group in groups for case in group)
    return {f"{v['logits'].shape} {v['token_ids'].shape} {v['pad_id']}" for v in values}


SEES = "f'{logits.shape} {token_ids.shape} {pad_id}'"
HOSTILE = f"""
FOLDERS = ('', '/tmp/', '/dev/shm/')
def left():
    for folder in FOLDERS:
        try:
            return open(folder + 'left').read()
        except OSError:
            pass
    return ''
{ENTRY}
    text = 'LEAK ' + (left() or {SEES}) + '.'
    for folder in FOLDERS:
        try:
            open(folder + 'left', 'w').write({SEES})
        except OSError:
            pass
    print(text)
    raise type(text, (ValueError,), {{}})(text)
"""


def reported(grade: Grade, folder: Path, text: str, format_: str = "text") -> str:
    (folder / "seed.txt").write_text("secret")
    (folder / "mine.py").write_text(text)
    run = grade("problem", "07", "mine.py", "--format", format_, "--seed-file", "seed.txt")
    assert run.code == 1, run.err
    return run.out + run.err


def test_an_exception_has_its_message_and_its_lines(grade: Grade, tmp_path: Path):
    out = reported(grade, tmp_path, f"def helper(x):\n    return x.shap\n{ENTRY}\n    return helper(logits)\n")
    assert re.search(r"AttributeError: .*shap.* \(mine.py, line 2\)", out)
    assert "mine.py, line 4, in next_token_loss\n               return helper(logits)" in out
    assert out.count("AttributeError") == 1
    assert out.count("same cause as above") == len(PROBLEM.checks) - 1


def test_a_syntax_error_has_its_caret(grade: Grade, tmp_path: Path):
    out = reported(grade, tmp_path, f"{ENTRY}\n    return (1\n")
    lines = [line.strip() for line in out.splitlines()]
    assert "SyntaxError: '(' was never closed (mine.py, line 2)" in lines
    place = lines.index("mine.py, line 2")
    assert lines[place + 1 : place + 3] == ["return (1", "^"]


def test_a_wrong_name_gets_the_right_one(grade: Grade, tmp_path: Path):
    out = reported(grade, tmp_path, "def next_tokens_loss(logits, token_ids, pad_id):\n    return 0\n")
    assert "`next_token_loss` is not defined: you have `next_tokens_loss`; rename it" in out


def test_another_function_of_the_page_is_not_to_be_renamed(grade: Grade, tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import optax\n\ndef warmup_cosine(peak, warmup_steps, decay_steps):\n    return "
        "optax.constant_schedule(peak)\n"
    )
    out = grade("problem", "10", path).out
    assert "`warmup_stable_decay` is not defined: write it at the top level" in out


@pytest.mark.parametrize("format_", ["text", "json", "gradescope", "junit"])
def test_only_numbers_of_public_cases_are_told(grade: Grade, tmp_path: Path, format_: str):
    out = reported(grade, tmp_path, HOSTILE, format_)
    public, secret = numbers(0), numbers(read_seed(tmp_path / "seed.txt"))
    told = set(re.findall(r"LEAK (.*?)\.", out))
    assert told
    assert told <= public
    assert secret - public, "the secret seed draws other cases"


@pytest.mark.parametrize(
    ("raised", "told"), [("type('LEAK', (Exception,), {})", "an exception or exited"), ("ValueError", "ValueError")]
)
def test_what_no_public_case_raises_has_no_line_and_no_message(grade: Grade, tmp_path: Path, raised: str, told: str):
    guard = f"    if {SEES} not in {numbers(0)!r}:\n        raise {raised}('LEAK')\n"
    out = reported(
        grade,
        tmp_path,
        f"{GOOD}\nright = next_token_loss\n{ENTRY}\n{guard}    return right(logits, token_ids, pad_id)\n",
    )
    assert f"it raised {told} on a hidden case; the public cases raise nothing" in out
    assert "LEAK" not in out
    assert "line" not in out


def test_an_endless_loop_is_not_run_again(grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text(f"{ENTRY}\n    while True: pass\n")
    (tmp_path / "seed.txt").write_text("secret")
    run = grade("problem", "07", "mine.py", "--seed-file", "seed.txt", "--timeout", 1)
    assert "it returned no result in time" in run.out


@pytest.mark.parametrize("sealed", [True, False])
def test_a_process_that_can_read_the_course_may_name_a_line_only(
    monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer, sealed: bool
):
    """With what it reads, an exception could carry a solution out."""
    monkeypatch.setattr(Isolation, "sealed", sealed)
    texts = {
        "ValueError: LEAK (mine.py, line 2)": f"{ENTRY}\n    raise ValueError('LEAK')\n",
        "SyntaxError: LEAK (mine.py, line 1)": "raise SyntaxError('LEAK', ('mine.py', 1, 1, ''))\n",
        "SyntaxError: LEAK (mine.py, line 9999)": "raise SyntaxError('LEAK', ('mine.py', 9999, 1, ''))\n",
    }
    for sentence, text in texts.items():
        submission = Submission("mine.py", {NAME: text})
        report = grade(PROBLEM, submission, fork_server, GradeOptions(show=False))
        told = report.checks[0].own_error
        if sealed:
            assert told.startswith(sentence)
        else:
            expected = f"it raised {sentence.replace(': LEAK', '')}".replace(" (mine.py, line 9999)", "")
            assert told == expected


def test_where_the_case_is_shown_nothing_is_run_again(fork_server: ForkServer):
    submission = Submission("mine.py", {NAME: f"{ENTRY}\n    raise ValueError\n"})
    report = grade(PROBLEM, submission, fork_server, GradeOptions())
    assert {check.own_error for check in report.checks} == {""}
