"""Code that depends on the time or on random numbers gets the same score again, or a remark; einops can be imported."""

from pathlib import Path

import pytest

from grader.judge.nondeterminism import REMARK, may_be
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure
from tests.conftest import ROOT, Grade

SOURCE = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
LINE = "    counts = targets != pad_id\n"


def changed(folder: Path, head: str, line: str) -> str:
    assert SOURCE.count(LINE) == 1
    (folder / "mine.py").write_text(head + SOURCE.replace(LINE, f"    {line}\n{LINE}"))
    return "mine.py"


def test_random_code_gets_the_same_report_and_no_misconception(grade: Grade, tmp_path):
    file = changed(tmp_path, "import random\n", "losses *= 1 + random.random()")
    first, again = (grade("problem", "07", file, "--json").json for _ in range(2))
    assert [check["message"] for check in first["checks"]] == [check["message"] for check in again["checks"]]
    assert first["verdict"] == "FAIL"
    assert REMARK in first["remarks"]
    assert first["misconception"] is None


def test_code_that_depends_on_the_time_is_told_so(grade: Grade, tmp_path):
    report = grade("problem", "07", changed(tmp_path, "import time\n", "losses *= time.perf_counter()"), "--json").json
    assert (report["verdict"], report["misconception"]) == ("FAIL", None)
    assert REMARK in report["remarks"]


def test_code_that_measures_the_time_may_be_right(grade: Grade, tmp_path):
    report = grade("problem", "07", changed(tmp_path, "import time\n", "time.perf_counter()"), "--json").json
    assert (report["verdict"], report["remarks"]) == ("PASS", [])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("line", "is_one"),
    [("import random", True), ("    from time import time", True), ("x = "
        "np.random.rand(3)", True), ("os.urandom(2)", True),
     ("x = jax.random.normal(key)", False), ("from jax import random", False), ("timestep = 1", False)],
)  # fmt: skip
def test_which_files_are_traced_once_more(line, is_one):
    assert may_be(Submission("mine.py", {"mine": line})) is is_one


def test_einops_works_in_a_confined_worker(grade: Grade, tmp_path):
    pytest.importorskip("einops")
    file = changed(tmp_path, "from einops import rearrange\n", 'losses = rearrange(losses, "t -> t 1")[:, 0]')
    assert grade("problem", "07", file, "--json").json["verdict"] == "PASS"


@pytest.mark.fast
def test_the_sentence_on_a_missing_module_lists_what_can_be_imported():
    sentence = Failure("missing_import", message="torch").sentence()
    assert sentence.startswith(
        "module `torch` is not available; you can import jax, flax, optax, orbax, grain, numpy, "
    )
    assert "tiktoken, regex" in sentence
    assert Failure("missing_import", message="einops").sentence() == (
        "module `einops` is not available; `pip install einops` adds it, or use `reshape` and `transpose`"
    )
