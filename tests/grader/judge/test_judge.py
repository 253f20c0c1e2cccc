"""The judge: two processes, no JAX of its own, the same verdict again, and a cache that may be lost or damaged."""

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT, Grade

SOLUTION = ROOT / "solutions" / "p07_next_token_loss.py"


def without_time(report: dict) -> dict:
    return {key: value for key, value in report.items() if key != "seconds"}


@pytest.mark.parametrize("args", [["--help"], ["list"], ["problem", "07", str(SOLUTION)], ["verify", "--help"]])
def test_never_imports_jax(args, tmp_path):
    """Neither `grade list` nor grading itself."""
    program = (
        "import sys; sys.argv = ['grade', *sys.argv[1:]]\nfrom grader.cli import main\n"
        "try: main()\nexcept SystemExit as end: code = end.code\n"
        "assert not {'jax', 'flax', 'jaxlib'} & set(sys.modules), 'imported'\nassert code in (0, None), code\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *args], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_listing_is_light():
    """What makes a command line slow is not loaded for those that need nothing of it."""
    program = "import sys\nimport grader.cli\nassert not {'numpy', 'hypothesis', 'rich', 'psutil'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_the_same_verdict_again(grade: Grade, tmp_path):
    (tmp_path / "wrong.py").write_text(SOLUTION.read_text().replace("token_ids[1:]", "token_ids[:-1]"))
    first, again = (grade("problem", "07", "wrong.py", "--json").json for _ in range(2))
    assert without_time(first) == without_time(again)
    cold = grade("problem", "07", "wrong.py", "--json", GRADE_CACHE=str(tmp_path / "empty")).json
    assert without_time(first) == without_time(cold)
    none = grade("problem", "07", "wrong.py", "--json", GRADE_CACHE="/proc/nothing").json
    assert without_time(first) == without_time(none)


def test_a_damaged_cache_is_noticed(grade: Grade, tmp_path):
    cache = tmp_path / "cache"
    good = grade("problem", "07", SOLUTION, "--json", GRADE_CACHE=str(cache)).json
    stored = [path for path in (cache / "references").rglob("*") if path.is_file()]
    assert stored
    for path in stored:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data if path.name < "8" else data[:20])
    assert (
        grade("problem", "07", SOLUTION, "--json", GRADE_CACHE=str(cache)).json["verdict"] == good["verdict"] == "PASS"
    )


def test_other_seed_other_cases(grade: Grade, tmp_path):
    (tmp_path / "wrong.py").write_text(SOLUTION.read_text().replace("token_ids[1:]", "token_ids[:-1]"))
    first, other = (grade("problem", "07", "wrong.py", "--json", "--seed", seed).json for seed in (0, 7))
    assert first["misconception"] == other["misconception"]
    assert first["counterexample"]["inputs"] != other["counterexample"]["inputs"]


def test_answers_learnt_from_one_seed_fail_with_another(grade: Grade, tmp_path):
    """A file that knows the outputs of seed 0 by heart."""
    key = "import hashlib\ndef key(x):\n    import numpy as np\n    return hashlib.md5(np.asarray(x).tobytes()).hexdigest()\n"
    dump = SOLUTION.read_text() + (
        f"\n{key}"
        "_real = next_token_loss\n"
        "def next_token_loss(logits, token_ids, pad_id):\n"
        "    import numpy as np\n"
        "    out = _real(np.asarray(logits), np.asarray(token_ids), pad_id)\n"
        "    print('KNOW', key(logits), float(out))\n"
        "    return out\n"
    )
    (tmp_path / "dump.py").write_text(dump)
    printed = grade("problem", "07", "dump.py", "--json").json["stdout"]
    table = dict(line.split()[1:] for line in printed.splitlines() if line.startswith("KNOW"))
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


def test_the_json_object_is_stable(grade: Grade, tmp_path):
    (tmp_path / "wrong.py").write_text(SOLUTION.read_text().replace("token_ids[1:]", "token_ids[:-1]"))
    report = grade("problem", "07", "wrong.py", "--json").json
    assert list(report) == [
        "schema", "problem", "verdict", "score", "points", "checks", "misconception", "part", "earlier",
        "notes", "counterexample", "stdout", "isolation", "seconds",
    ]  # fmt: skip
    assert (report["schema"], report["problem"], report["verdict"]) == (1, "p07_next_token_loss", "FAIL")
    assert (report["score"], report["points"]) == (1, 6)
    assert [list(check) for check in report["checks"]] == [
        ["name", "passed", "points", "message", "verdict", "kind"]
    ] * 5
    assert report["misconception"]["name"] == "targets not shifted"
    example = report["counterexample"]
    assert list(example) == ["inputs", "leaf", "index", "expected", "got"]
    assert set(example["inputs"]) == {"logits", "token_ids", "pad_id"}
    assert (example["leaf"], example["index"]) == ("output", [])
    assert example["expected"] == pytest.approx(1.446282)
    assert isinstance(example["got"], float)
    json.dumps(report, allow_nan=False)


def test_a_misconception_that_raises_is_named_by_its_error(grade: Grade, tmp_path):
    source = (ROOT / "solutions" / "p06_mini_gpt.py").read_text()
    for name in ("p03_causal_mha", "p05_gpt_block"):
        (tmp_path / f"{name}.py").write_text((ROOT / "solutions" / f"{name}.py").read_text())
    (tmp_path / "mine.py").write_text(source.replace("nnx.List([GPTBlock", "list([GPTBlock"))
    report = grade("problem", "06", "mine.py", "--json").json
    assert report["verdict"] == "ERROR"
    assert report["misconception"]["name"] == "blocks in a plain list"


def test_an_error_that_nobody_listed_is_not_named(grade: Grade, tmp_path):
    (tmp_path / "odd.py").write_text(
        SOLUTION.read_text().replace("jnp.sum(losses * counts)", "0.9 * jnp.sum(losses * counts)")
    )
    report = grade("problem", "07", "odd.py", "--json").json
    assert (report["verdict"], report["misconception"]) == ("FAIL", None)


def test_a_failure_that_the_simplest_case_hides_is_shrunk(grade: Grade, tmp_path):
    """Wrong only for stories of more than 4 tokens: the smallest such has 6."""
    text = SOLUTION.read_text().replace("return jnp.sum", "return (1 + (len(token_ids) > 4)) * jnp.sum")
    (tmp_path / "late.py").write_text(text)
    report = grade("problem", "07", "late.py", "--json").json
    assert report["verdict"] == "FAIL"
    assert len(report["counterexample"]["inputs"]["token_ids"]) == 6
    assert len(report["counterexample"]["inputs"]["logits"][0]) == 5


def test_an_unsound_problem_is_our_fault(grade: Grade, tmp_path):
    import shutil

    copy = tmp_path / "course"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "tests", "__pycache__"))
    good = (copy / "solutions" / "p07_next_token_loss.py").read_text()
    (copy / "solutions" / "p07_next_token_loss.py").write_text(
        good.replace("    losses = ", "    1 / 0\n    losses = ")
    )
    run = grade("problem", "07", SOLUTION, root=copy)
    assert run.code == 3
    assert run.err.startswith("grade: The reference of problem 07 fails: ZeroDivisionError")
    (copy / "problems" / "p07_next_token_loss" / "problem.py").write_text("PROBLEM = 3 +")
    run = grade("problem", "07", SOLUTION, root=copy)
    assert run.code == 3
    assert "cannot be imported: SyntaxError" in run.err
    assert "Traceback" not in run.err
    (copy / "problems" / "p01_token_embedding" / "page.md").unlink()
    run = grade("show", "01", root=copy)
    assert run.code == 3
    assert "page.md cannot be read" in run.err
