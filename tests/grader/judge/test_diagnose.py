"""Which misconceptions a failure is attributed to, if any. `grade verify` checks all of them."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import judge
from grader.judge.judge import GradeOptions
from grader.judge.reference import Reference
from grader.judge.session import Outcome
from grader.judge.submission import Submission
from grader.problem import Case, Check
from tests.conftest import ROOT, Grade, misconception_name
from tests.grader.judge.conftest import Graded

LOSS = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
SAMPLING = (ROOT / "solutions" / "p29_sampling.py").read_text()
SHIFT, NO_SHIFT = "logits[:-1], token_ids[1:]", "logits[:-1], token_ids[:-1]"
MASK, NO_MASK = "targets != pad_id", "jnp.ones_like(targets)"
MEAN, SUM = " / jnp.maximum(jnp.sum(counts), 1)", ""
TOKENS, BITS = " / jnp.maximum(jnp.sum(token_ids != pad_id), 1)", "1 / jnp.log(2.0) * optax.softmax_cross"


def edited(source: str, *edits: tuple[str, str]) -> str:
    """The source with these replacements."""
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    return source


@pytest.fixture
def of_all(grade: Grade, tmp_path: Path) -> Any:
    """A function that grades a source with replacements by the command, so all misconceptions are known."""

    def run(problem: str, source: str, *edits: tuple[str, str]) -> Any:
        (tmp_path / "mine.py").write_text(edited(source, *edits))
        return grade("problem", problem, "mine.py", "--json").json

    return run


def failed(report: Any) -> list[str]:
    return [check["name"] for check in report["checks"] if not check["passed"]]


def test_a_misconception_is_identified_by_its_exception(grade: Grade, tmp_path):
    source = (ROOT / "solutions" / "p06_mini_gpt.py").read_text()
    for name in ("p03_causal_mha", "p05_gpt_block"):
        (tmp_path / f"{name}.py").write_text((ROOT / "solutions" / f"{name}.py").read_text())
    (tmp_path / "mine.py").write_text(source.replace("nnx.List([GPTBlock", "list([GPTBlock"))
    report = grade("problem", "06", "mine.py", "--json").json
    assert report["verdict"] == "ERROR"
    assert report["misconception"]["name"] == misconception_name("06", "self.blocks = [GPTBlock")


def test_after_an_exception_only_ideas_that_raise_are_run(fork_server: ForkServer):
    """Most exceptions are nobody's idea, and to compile all ideas would take seconds."""
    problem = catalog.find("01")
    reference, asked = Reference(problem, fork_server), set[str]()
    ask = reference.ask

    def noted(check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        asked.add(variant)
        return ask(check, case, variant)

    reference.ask = noted
    sources = dict(reference.submission().sources)
    sources[problem.name] = sources[problem.name].replace("self.pos_embed[:T]", "self.pos_embed[: 1 // 0]")
    try:
        report = judge.grade(problem, Submission("mine.py", sources), fork_server, GradeOptions(reference=reference))
    finally:
        reference.close()
    assert "ZeroDivisionError" in report.first_failure.message
    raising = {variant for variant, idea in reference.misconceptions.items() if idea.raises}
    assert asked == {""} | raising
    assert 0 < len(raising) < len(reference.misconceptions)


def test_an_error_that_is_not_a_misconception(of_all):
    report = of_all("07", LOSS, ("jnp.sum(losses * counts)", "0.9 * jnp.sum(losses * counts)"))
    assert (report["verdict"], report["misconception"]) == ("FAIL", None)


def test_a_misconception_that_contradicts_a_passed_check_is_not_named(graded: Graded, tmp_path: Path):
    """With all filters, one token too few is kept; with top-k alone, as many as it should be."""
    path = tmp_path / "mine.py"
    path.write_text(edited(SAMPLING, ("odds >= smallest", "jnp.where(top_p < 1, odds > smallest, odds >= smallest)")))
    report = graded("29", path, "odds > smallest")
    assert failed(report.encode()) == ["temperature, top-k and top-p"]
    assert report.misconception is None
    path.write_text(edited(SAMPLING, ("odds >= smallest", "odds > smallest")))
    report = graded("29", path, "odds > smallest")
    assert report.misconception.name == misconception_name("29", "odds > smallest")


@pytest.mark.parametrize(
    ("edits", "ideas"),
    [
        ([(SHIFT, NO_SHIFT), (MEAN, SUM)], [NO_SHIFT, None]),  # both wrong in the first check that fails
        ([(SHIFT, NO_SHIFT), (MASK, NO_MASK)], [NO_SHIFT, NO_MASK]),  # the second shows in another check
        (
            [("optax.softmax_cross", BITS), (MEAN, TOKENS)],
            ["/ jnp.log(2.0)", "(token_ids != pad_id), 1)"],
        ),  # two factors
    ],
)
def test_two_ideas_at_once_are_both_named(of_all, edits, ideas):
    report = of_all("07", LOSS, *edits)
    names = [misconception_name("07", idea) if idea else "sum instead of mean" for idea in ideas]
    assert report["misconception"]["name"] == ", and ".join(names)
    assert report["misconception"]["says"].startswith("Two ideas together give these numbers.")


def test_what_a_misconception_does_not_explain_is_said(graded: Graded, tmp_path: Path):
    path = tmp_path / "mine.py"
    dropped = ("jnp.cumsum(odds[order]) - odds[order]", "jnp.cumsum(odds[order])")
    path.write_text(edited(SAMPLING, dropped, ("tokens[len(prompt) :]", "tokens[len(prompt) :] + [0]")))
    report = graded("29", path, dropped[1])
    assert report.misconception.name == misconception_name("29", dropped[1])
    assert "This explains the first difference; " in report.misconception.says
    path.write_text(edited(SAMPLING, dropped))
    assert "explains the first difference" not in graded("29", path, dropped[1]).misconception.says
