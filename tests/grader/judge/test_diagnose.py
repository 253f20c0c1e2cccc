"""Which misconceptions a failure is attributed to, if any. `grade verify` checks all of them."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from grader.course import catalog
from grader.course.catalog import Misconception
from grader.isolation.sandbox import ForkServer
from grader.judge import diagnose, judge
from grader.judge.diagnose import Evidence
from grader.judge.judge import Shared
from grader.judge.reference import Reference
from grader.judge.submission import Submission
from grader.judge.worker_session import Outcome
from grader.problem import Case, Check, Tolerance
from grader.wire.compare import Leaf
from tests.conftest import ROOT, Grade, misconception_name

LOSS = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
SHIFT, NO_SHIFT = "logits[:-1], token_ids[1:]", "logits[:-1], token_ids[:-1]"
MASK, NO_MASK = "targets != pad_id", "jnp.ones_like(targets)"
MEAN, SUM = " / jnp.maximum(jnp.sum(counts), 1)", ""
TOKENS, BITS = " / jnp.maximum(jnp.sum(token_ids != pad_id), 1)", "1 / jnp.log(2.0) * optax.softmax_cross"


@pytest.fixture
def graded(grade: Grade, tmp_path: Path) -> Any:
    """A function that makes replacements in a source, grades it, and returns the report."""

    def run(problem: str, source: str, *edits: tuple[str, str]) -> Any:
        for old, new in edits:
            assert source.count(old) == 1
            source = source.replace(old, new)
        (tmp_path / "mine.py").write_text(source)
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


def test_an_array_that_is_no_parameter_is_another_mistake_than_none(graded: Any):
    source, table = (
        (ROOT / "solutions" / "p01_token_embedding.py").read_text(),
        "nnx.Param(jnp.zeros((max_T, d_model)))",
    )
    plain = graded("01", source, (table, table.removeprefix("nnx.Param(").removesuffix(")")))
    assert plain["misconception"]["name"] == misconception_name("01", "jnp.zeros((max_T, d_model))")
    variable = graded("01", source, (table, table.replace("Param", "BatchStat")))
    missing = "not judged yet: parameters are filled by name, and `pos_embed` is missing"
    assert (variable["misconception"], variable["checks"][1]["message"]) == (None, missing)
    assert graded("01", source, (table, "None"))["misconception"] is None


def test_a_module_that_is_missing_as_a_whole_has_no_idea_of_one_of_its_parameters(graded: Any, tmp_path: Path):
    source = (ROOT / "solutions" / "p03_causal_mha.py").read_text()
    (tmp_path / "p02_causal_attention.py").write_text((ROOT / "solutions" / "p02_causal_attention.py").read_text())
    lines = [line for line in source.splitlines() if "self.out_proj = " not in line]
    report = graded("03", "\n".join(lines).replace("self.out_proj(", "("))
    assert report["checks"][0]["message"].startswith("`out_proj.bias` is missing")
    assert report["misconception"] is None


def test_an_idea_is_named_beside_an_entry_that_is_missing(graded: Any):
    """The checks of the missing entry come first; files from before it existed have it in none."""
    source = (ROOT / "solutions" / "p42_bpe_training.py").read_text()
    joined = ("(totals[pair], pair), default", "(totals[pair], pair[0] + pair[1]), default")
    report = graded("42", source, ("def count_words", "def other_words"), joined)
    assert "`count_words` is not defined" in report["checks"][0]["message"]
    assert report["misconception"]["name"] == "ties compared by the joined bytes"


def test_an_idea_is_named_beside_an_entry_that_is_not_written_yet(graded: Any):
    source = (ROOT / "solutions" / "p42_bpe_training.py").read_text()
    joined = ("(totals[pair], pair), default", "(totals[pair], pair[0] + pair[1]), default")
    todo = ("    return Counter(", "    raise NotImplementedError\n    return Counter(")
    assert graded("42", source, joined, todo)["misconception"]["name"] == "ties compared by the joined bytes"


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
        report = judge.grade(problem, Submission("mine.py", sources), fork_server, shared=Shared(reference))
    finally:
        reference.close()
    assert "ZeroDivisionError" in report.first_failure.message
    raising = {variant for variant, idea in reference.misconceptions.items() if idea.raises}
    assert asked == {""} | raising
    assert 0 < len(raising) < len(reference.misconceptions)


def test_an_error_that_is_not_a_misconception(graded):
    report = graded("07", LOSS, ("jnp.sum(losses * counts)", "0.9 * jnp.sum(losses * counts)"))
    assert (report["verdict"], report["misconception"]) == ("FAIL", None)


def test_a_misconception_that_contradicts_a_passed_check_is_not_named(graded):
    """Where there is padding, the losses are summed; elsewhere their mean is right."""
    report = graded("07", LOSS, (MEAN, " / jnp.where(jnp.all(counts), jnp.maximum(jnp.sum(counts), 1), 1)"))
    assert failed(report) == ["padding does not count"]
    assert (report["misconception"] or {"name": ""})["name"] != "sum instead of mean"
    assert graded("07", LOSS, (MEAN, SUM))["misconception"]["name"] == "sum instead of mean"


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
def test_two_ideas_at_once_are_both_named(graded, edits, ideas):
    report = graded("07", LOSS, *edits)
    names = [misconception_name("07", idea) if idea else "sum instead of mean" for idea in ideas]
    assert report["misconception"]["name"] == ", and ".join(names)
    assert report["misconception"]["says"].startswith("Two ideas together give these numbers.")


def test_two_ideas_with_one_line_are_both_named(graded: Any, tmp_path: Path):
    """The edit of each replaces the line; only other words of it are new."""
    (tmp_path / "p03_causal_mha.py").write_text(catalog.solution_text(catalog.find("03")))
    block = catalog.solution_text(catalog.find("05"))
    report = graded("05", block, ("nnx.relu", "nnx.gelu"), ("self.ln2(x)", "self.ln1(x)"))
    assert report["misconception"]["name"] == "one norm used for both sublayers, and GELU instead of ReLU"


def test_an_idea_that_leaves_a_difference_unexplained_is_not_named(graded):
    report = graded("07", LOSS, (MEAN, " + 3.0 * (jnp.sum(counts) == 0)"))
    assert report["misconception"] is None
    assert graded("07", LOSS, (MEAN, SUM))["misconception"]["name"] == "sum instead of mean"


def test_an_idea_must_explain_a_case_of_other_sizes(graded):
    """With D = 2, 3 (D² + D) parameters of q, k and v are as many as 4 D² + D, without the biases of three layers."""
    source = (ROOT / "solutions" / "p23_flops_and_memory.py").read_text()
    biases = ("4 * (d_model * d_model + d_model)", "4 * d_model * d_model + d_model")
    assert "only three layers" not in str(graded("23", source, biases)["misconception"])


TRAINS_A_COPY = """
    graphdef, state = nnx.split(model)
    optimizer = optax.adam(0.03)

    @jax.jit
    def update(state, moments, batch):
        def mean_loss(state):
            logits_BTV = jax.vmap(nnx.merge(graphdef, state))(batch)
            return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits_BTV, batch))

        loss, gradients = jax.value_and_grad(mean_loss)(state)
        changes, moments = optimizer.update(gradients, moments)
        return optax.apply_updates(state, changes), moments, loss

    losses, moments = [], optimizer.init(state)
    for batch in token_ids:
        state, moments, loss = update(state, moments, batch)
        losses.append(loss)
    return jnp.stack(losses)
"""


def test_of_ideas_with_the_same_compared_numbers_the_one_that_a_line_suggests_must_have_all_others(graded):
    """A copy is trained by a function under `jax.jit`: its losses fall, unlike those of a step that updates nothing."""
    source, head = (ROOT / "solutions" / "p14_a_to_a.py").read_text(), "    optimizer = nnx.Optimizer("
    body = source[source.index(head) :]
    report = graded("14", source, (body, TRAINS_A_COPY), ("@nnx.jit", "@jax.jit"))
    assert report["misconception"]["name"] == "a copy of the model trained"


def test_a_failure_is_that_of_an_idea_only_if_it_is_the_same_error(graded):
    source = (ROOT / "solutions" / "p10_lr_schedule.py").read_text()
    share = "(1 + jnp.cos(jnp.pi * share)) / 2"
    report = graded("10", source, (f"weight = {share}", f"weight = {share.replace('share', 'float(share)')}"))
    (message,) = (check["message"] for check in report["checks"] if check["name"] == "works under jit")
    assert "leave out `float(...)`" in message
    assert report["misconception"]["name"] == "number taken out of a traced step"  # and not a Python `if`


def test_a_program_like_one_misconception_is_compared_with_few(fork_server: ForkServer, tmp_path, monkeypatch):
    """Each idea costs a compilation, and a learner waits for it."""
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    problem, asked = catalog.find("07"), set[str]()
    ask = Reference.ask

    def noted(reference: Reference, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        asked.add(variant)
        return ask(reference, check, case, variant)

    monkeypatch.setattr(Reference, "ask", noted)
    reference = Reference(problem, fork_server)
    wrong = Submission(f"{problem.name}.py", {problem.name: LOSS.replace(MEAN, SUM).replace("counts", "real")})
    report = judge.grade(problem, wrong, fork_server, shared=Shared(reference))
    reference.close()
    assert report.misconception is not None
    assert report.misconception.name == "sum instead of mean"
    assert len(asked - {""}) <= judge.MOST_SUSPECTS < len(reference.misconceptions)


def test_an_idea_with_another_output_is_not_asked_for_its_gradient(fork_server: ForkServer, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    problem, asked = catalog.find("02"), dict[str, set[bool]]()
    ask = Reference.ask

    def noted(reference: Reference, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        if check.probe == "values":
            asked.setdefault(variant, set()).add("wrt" in check.options)
        return ask(reference, check, case, variant)

    monkeypatch.setattr(Reference, "ask", noted)
    reference = Reference(problem, fork_server)
    text = catalog.reference_sources(problem)[problem.name]
    wrong = Submission(f"{problem.name}.py", {problem.name: text.replace("q @ k.T / ", "1.5 * q @ k.T / ")})
    assert judge.grade(problem, wrong, fork_server, shared=Shared(reference)).misconception is None
    reference.close()
    whole = {variant for variant, gradients in asked.items() if True in gradients}
    assert whole == {""}
    assert set(reference.misconceptions) <= set(asked)


class Numbers:
    """A reference that needs 10 of something, with two misconceptions that need more."""

    at_once = 1
    misconceptions: ClassVar = {name: Misconception(name, "It is.", "", ()) for name in ("far", "near")}

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        answer = Future[Outcome]()
        answer.set_result(needs({"": 10, "far": 400, "near": 110}[variant]))
        return answer


def needs(number: int) -> Outcome:
    return Outcome([Leaf("output", "int32", np.array(number, np.int32))])


@pytest.mark.fast
@pytest.mark.parametrize(("number", "name"), [(100, "near"), (380, "far")])
def test_of_ideas_that_exceed_a_bound_the_nearest_is_named(number: int, name: str):
    check, case = Check("few", 1, "values", compare="at_most", tolerance=Tolerance(0.0, 0.0)), Case({})
    found = diagnose.diagnose(Numbers(), [Evidence(check, case, needs(number), wrong=True)], most_pairs=0)
    assert found is not None
    assert found.variant == name
