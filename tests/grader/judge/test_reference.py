"""The reference: its outputs are cached, a corrupt cache is noticed, and a broken reference is an internal error."""

import shutil

from tests.conftest import ROOT, Grade

SOLUTION = ROOT / "solutions" / "p07_next_token_loss.py"


def test_corrupt_outputs_are_computed_again(grade: Grade, tmp_path):
    cache = tmp_path / "cache"
    assert grade("problem", "07", SOLUTION, "--json", GRADE_CACHE=str(cache)).json["verdict"] == "PASS"
    stored = [path for path in (cache / "references").rglob("*") if path.is_file()]
    assert stored
    for path in stored:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data if path.name < "8" else data[:20])
    assert grade("problem", "07", SOLUTION, "--json", GRADE_CACHE=str(cache)).json["verdict"] == "PASS"


def test_an_unsound_problem_is_an_internal_error(grade: Grade, tmp_path):
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
