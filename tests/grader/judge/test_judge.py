"""The judge: it never imports JAX, gives the same report again, and draws its cases from the seed."""

import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import judge
from grader.judge.blocked import RIGHT_VALUES
from grader.judge.submission import Submission
from tests.conftest import ROOT, Grade

SOLUTION = ROOT / "solutions" / "p07_next_token_loss.py"


def without_time(report: dict) -> dict:
    return {key: value for key, value in report.items() if key != "seconds"}


@pytest.mark.parametrize("args", [["--help"], ["list"], ["problem", "07", str(SOLUTION)], ["verify", "--help"]])
def test_the_judge_never_imports_jax(args, tmp_path):
    """Neither does any other command."""
    program = (
        "import os, sys; sys.argv = ['grade', *sys.argv[1:]]; os._exit = sys.exit\nfrom grader.cli.learner import "
        "main\ntry: main()\nexcept SystemExit as end: code = end.code\nassert not {'jax', 'flax', 'jaxlib'} & "
        "set(sys.modules), 'imported'\nassert code in (0, None), code\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program, *args], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr


def test_the_command_line_imports_nothing_slow():
    """So `grade list` and `grade --help` answer at once."""
    program = (
        "import sys\nimport grader.cli.learner\nassert not {'numpy', 'hypothesis', 'rich', 'psutil'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_the_same_file_gets_the_same_report(grade: Grade, wrong, tmp_path):
    first, again = (grade("problem", "07", wrong, "--json").json for _ in range(2))
    assert without_time(first) == without_time(again)
    cold = grade("problem", "07", wrong, "--json", GRADE_CACHE=str(tmp_path / "empty")).json
    assert without_time(first) == without_time(cold)
    none = grade("problem", "07", wrong, "--json", GRADE_CACHE="/proc/nothing").json
    assert without_time(first) == without_time(none)


def test_another_seed_gives_other_cases(grade: Grade, wrong):
    first, other = (grade("problem", "07", wrong, "--json", "--seed", seed).json for seed in (0, 7))
    assert first["misconception"] == other["misconception"]
    assert first["counterexample"]["inputs"] != other["counterexample"]["inputs"]


def test_outputs_memorized_from_one_seed_fail_with_another(grade: Grade, tmp_path):
    """The file holds a table of the outputs for seed 0."""
    key = (
        "import hashlib\ndef key(x):\n    import numpy as np\n"
        "    return hashlib.md5(np.asarray(x).tobytes()).hexdigest()\n"
    )
    dump = SOLUTION.read_text() + (
        f"\n{key}"
        "_real = next_token_loss\n"
        "def next_token_loss(logits, token_ids, pad_id):\n"
        "    import numpy as np\n"
        "    out = _real(np.asarray(logits), np.asarray(token_ids), pad_id)\n"
        "    print('OUTPUT', key(logits), float(out))\n"
        "    return out\n"
    )
    (tmp_path / "dump.py").write_text(dump)
    printed = grade("problem", "07", "dump.py", "--json").json["stdout"]
    table = dict(line.split()[1:] for line in printed.splitlines() if line.startswith("OUTPUT"))
    assert table
    cheat = (
        f"TABLE = {table!r}\n{key}"
        "def next_token_loss(logits, token_ids, pad_id):\n"
        "    import numpy as np\n"
        "    return np.float32(TABLE.get(key(logits), 0))\n"
    )
    (tmp_path / "cheat.py").write_text(cheat)
    known = grade("problem", "07", "cheat.py", "--json").json
    assert {check["name"]: check["passed"] for check in known["checks"]}["padding does not count"] is True
    secret = grade("problem", "07", "cheat.py", "--json", "--seed", 12345).json
    assert [check["name"] for check in secret["checks"] if check["passed"]] == ["nothing to predict gives 0"]


def test_a_failure_on_a_large_case_is_shrunk(grade: Grade, tmp_path):
    """The file is wrong only for stories of more than 4 tokens. The smallest of them has 6."""
    text = SOLUTION.read_text().replace("return jnp.sum", "return (1 + (len(token_ids) > 4)) * jnp.sum")
    (tmp_path / "late.py").write_text(text)
    report = grade("problem", "07", "late.py", "--json").json
    assert report["verdict"] == "FAIL"
    assert len(report["counterexample"]["inputs"]["token_ids"]) == 6
    assert len(report["counterexample"]["inputs"]["logits"][0]) == 5


def test_a_file_that_leaves_jit_off_is_measured(grade: Grade, tmp_path):
    """It was useful to look at numbers, and turns loops into loops of Python, which carry nothing that could be
    counted."""
    source = (ROOT / "solutions" / "p46_muon.py").read_text()
    path = tmp_path / "p46_muon.py"
    path.write_text(f'{source}\n\njax.config.update("jax_disable_jit", True)\n')
    assert grade("problem", "46", path, "--json").json["verdict"] == "PASS"


def test_how_wrong_numbers_relate_to_the_expected_ones(grade: Grade, tmp_path):
    """The output is one number. The gradient shows that it is scaled."""
    text = SOLUTION.read_text().replace("return jnp.sum", "return 0.87 * jnp.sum")
    (tmp_path / "scaled.py").write_text(text)
    report = grade("problem", "07", "scaled.py", "--json").json
    first, second = [check["message"] for check in report["checks"]][:2]
    assert "In `gradient.logits`: every value is 0.87 times the expected one." in first
    assert "times" not in second, "one such sentence is enough"


def test_the_message_of_an_exception_names_no_file_of_the_course(grade: Grade, tmp_path):
    """JAX says which function it was tracing, and where: in a probe."""
    (tmp_path / "branching.py").write_text(
        "def warmup_cosine(peak, warmup_steps, decay_steps):\n"
        "    return lambda step: peak * step / warmup_steps if step < warmup_steps else peak\n\n"
        "def warmup_stable_decay(peak, warmup_steps, decay_start, decay_steps):\n"
        "    raise NotImplementedError\n"
    )
    report = grade("problem", "10", "branching.py", "--json").json
    (message,) = (check["message"] for check in report["checks"] if check["verdict"] == "ERROR")
    assert "Attempted boolean conversion of traced array" in message
    assert "branching.py, line 2" in message
    assert "probes.py" not in message


def test_an_imported_stub_is_the_cause_only_of_what_is_not_attempted(grade: Grade, tmp_path):
    """A file that needs its stub has nothing to grade yet. One with a fault of its own does not become right by filling
    it in."""
    block = (ROOT / "solutions" / "p05_gpt_block.py").read_text()
    (tmp_path / "p03_causal_mha.py").write_text((ROOT / "problems" / "p03_causal_mha" / "stub.py").read_text())
    (tmp_path / "p05_gpt_block.py").write_text(block)
    needs_it = grade("problem", "05", "p05_gpt_block.py", "--json").json
    assert (needs_it["verdict"], needs_it["earlier"]["problem"]) == ("NOT ATTEMPTED", "p03_causal_mha")
    (tmp_path / "p05_gpt_block.py").write_text(f"{block}\n\nclass GPTBlock:\n    pass\n")
    has_a_fault = grade("problem", "05", "p05_gpt_block.py", "--json").json
    assert (has_a_fault["verdict"], has_a_fault["earlier"]) == ("ERROR", None)


def test_an_imported_module_that_passes_is_graded_once(fork_server: ForkServer, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    problem, said = catalog.find("05"), list[str]()
    sources = dict(catalog.reference_sources(problem))
    sources["p03_causal_mha"] += "\n# my own\n"
    sources[problem.name] = sources[problem.name].replace("x = x + self.attn(", "x = self.attn(")
    wrong = Submission(f"{problem.name}.py", sources)
    for _ in range(2):
        judge.grade(problem, wrong, fork_server, listener=judge.Listener(said.append))
    assert [text for text in said if text.startswith("grading")] == ["grading p03_causal_mha.py, which it imports"]


def test_what_is_wrong_is_said_before_it_is_explained(fork_server: ForkServer):
    problem, said = catalog.find("04"), list[str]()
    text = catalog.reference_sources(problem)[problem.name].replace("x - mean", "x")
    wrong = Submission(f"{problem.name}.py", {problem.name: text})
    judge.grade(problem, wrong, fork_server, listener=judge.Listener(said.append))
    first = next(text for text in said if "looking for the misconception" in text)
    assert first.startswith("FAIL: output: `output[")


def test_a_measure_waits_for_the_right_values(grade: Grade, tmp_path: Path):
    """The loss is wrong, so that of the program whose operations are counted is, too."""
    (tmp_path / "p07_next_token_loss.py").write_text((ROOT / "solutions" / "p07_next_token_loss.py").read_text())
    source = (ROOT / "solutions" / "p08_train_step.py").read_text()
    assert source.count("(model)(token_ids)") == 1
    (tmp_path / "mine.py").write_text(source.replace("(model)(token_ids)", "(model)(token_ids) * 2.0"))
    checks = {check["name"]: check for check in grade("problem", "08", "mine.py", "--json").json["checks"]}
    assert checks["losses of four steps"]["kind"] == "value"
    assert checks["compiled once"]["message"] == f"not judged yet: {RIGHT_VALUES}"
    assert not checks["compiled once"]["kind"]
