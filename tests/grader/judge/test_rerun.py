"""What a report keeps of the failing case, and what it must not keep of a secret one."""

from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge.judge import grade
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from tests.conftest import NO_SHIFT, ROOT

NAME = "p07_next_token_loss"


def test_only_a_case_that_may_be_shown_is_kept_or_run_again(fork_server: ForkServer):
    text = (ROOT / "solutions" / f"{NAME}.py").read_text().replace("token_ids[1:]", "token_ids[:-1]")
    text = text.replace("return jnp.sum", "print('tokens', token_ids)\n    return jnp.sum")
    submission = Submission("mine.py", {NAME: text})
    shown, secret = (
        grade(catalog.load(NAME), submission, fork_server, GradeOptions(show=show)) for show in (True, False)
    )
    assert shown.misconception == secret.misconception
    assert NO_SHIFT in str(shown.misconception.replace)
    assert shown.eager_stdout.strip() == "tokens [2 0 4 1]"
    (leaf,) = shown.counterexample.leaves
    assert (leaf.path, leaf.idea_agrees) == ("output", 1)
    assert (secret.counterexample, secret.eager_stdout) == (None, "")
    assert "Tracer" in secret.stdout


def test_a_code_that_is_read_off_a_nan_is_not_named(fork_server: ForkServer):
    """A NaN differs from itself, so an output that is NaN would depend on everything."""
    name = "p02_causal_attention"
    text = (ROOT / "solutions" / f"{name}.py").read_text().replace("-1e9", "-jnp.inf").replace("tril(", "triu(1 - ")
    report = grade(catalog.load(name), Submission("mine.py", {name: text}), fork_server)
    causality = next(result for result in report.checks if result.check.name == "causality")
    assert causality.message.startswith("`output[")
    assert "is nan" in causality.message
    assert "depends" not in causality.message
    assert "NaN" in report.fault


def test_nothing_is_judged_by_the_values_of_a_parameter_with_another_name(fork_server: ForkServer):
    name = "p01_token_embedding"
    text = (ROOT / "solutions" / f"{name}.py").read_text().replace("self.pos_embed", "self.wpe")
    report = grade(catalog.load(name), Submission("mine.py", {name: text}), fork_server)
    first, *others = [result for result in report.checks if not result.passed]
    assert "; you have `wpe` instead" in first.message
    assert others
    assert all(result.message.startswith("not judged yet: parameters are filled by name") for result in others)
