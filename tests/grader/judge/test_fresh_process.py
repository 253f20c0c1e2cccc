"""What a submission saved is opened by a fresh process: objects in memory do not survive, files do."""

from pathlib import Path

import numpy as np
import pytest

from grader.course import cases, catalog
from grader.judge.worker_session import Outcome, Stage, in_stages
from grader.wire.channel import Frame
from grader.wire.compare import Leaf
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


@pytest.mark.fast
def test_a_reader_gets_no_leaf_that_a_worker_names_like_one_of_the_judge():
    problem = catalog.find("32")
    check = next(check for check in problem.checks if check.saved_by and check.read)
    case = cases.draw_all(problem, 0)[check.cases][0]
    answers = {
        "saves": Outcome([Leaf(name, "int32", np.int32(1)) for name in ("losses", "file:run")]),
        "restores": Outcome(
            [
                Leaf(name, "int32", np.int32(2))
                for name in ("losses", "saved:losses", "case:steps", "file:run", "file:own")
            ]
        ),
    }
    asked: list[Frame] = []

    def ask(stage: Stage, frame: Frame) -> Outcome:
        asked.append(frame)
        return answers.get(stage, Outcome())

    in_stages(check, case, "run", (), ask)
    read = [(leaf.path, leaf.values.tolist()) for leaf in asked[-1].leaves]
    assert ("losses", 2) in read
    assert [values for path, values in read if path == "saved:losses"] == [1]
    assert [(path, values) for path, values in read if path.startswith("file:")] == [("file:run", 1)]
    assert all(values != 2 for path, values in read if path == "case:steps")
