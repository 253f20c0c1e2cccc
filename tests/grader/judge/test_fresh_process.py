"""What a submission saved is opened by a fresh process: objects in memory do not survive, files do."""

from pathlib import Path

from tests.conftest import ROOT, Grade

NAME = "p26_exact_resume"
SOLUTION = (ROOT / "solutions" / f"{NAME}.py").read_text()
LOADER = "    loader = make_loader()\n"

KEEPS_OBJECTS_IN_MEMORY = """
from pathlib import Path

kept = {}


def save(path, *objects):
    Path(path).write_text("kept in memory")
    kept[path] = objects


def resume(path, make, make_loader):
    return kept[path]
"""


def test_objects_kept_in_memory_are_gone(grade: Grade, tmp_path: Path):
    (tmp_path / f"{NAME}.py").write_text(KEEPS_OBJECTS_IN_MEMORY)
    report = grade("problem", "26", f"{NAME}.py", "--json").json
    assert report["verdict"] == "ERROR"
    assert "KeyError" in report["checks"][0]["message"]


def test_an_error_in_the_fresh_process_is_reported_with_its_line(grade: Grade, tmp_path: Path):
    (tmp_path / f"{NAME}.py").write_text(SOLUTION.replace(LOADER, "    loader = make_loader(1)\n"))
    report = grade("problem", "26", f"{NAME}.py", "--json").json
    assert report["verdict"] == "ERROR"
    line = SOLUTION[: SOLUTION.index(LOADER.lstrip())].count("\n") + 1
    assert f"{NAME}.py, line {line}" in report["checks"][0]["message"]


def test_a_fresh_process_that_exits_does_not_hang_the_judge(grade: Grade, tmp_path: Path):
    (tmp_path / f"{NAME}.py").write_text(SOLUTION.replace(LOADER, "    __import__('os')._exit(0)\n    loader = None\n"))
    run = grade("problem", "26", f"{NAME}.py", "--json")
    assert (run.code, run.json["verdict"]) == (1, "ERROR")
