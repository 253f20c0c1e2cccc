"""The commands of open tasks: `grade task`, and tasks in `grade list` and `grade show`."""

import json
from pathlib import Path

from grader.course import catalog, course, log
from grader.handout import pack
from tests.conftest import Grade
from tests.grader.tasks.conftest import BRONZE, GOLD


def test_from_the_list_to_a_score(grade: Grade, doubling: Path, tmp_path: Path):
    listed = grade("list", cwd=tmp_path).out
    assert listed.index("  01  ") < listed.index("  --  Doubling") < listed.index("  02  ")
    assert "Write `double(x)`." in grade("show", "doubling", cwd=tmp_path).out
    made = grade("task", "doubling", cwd=tmp_path)
    file = tmp_path / "attempts" / "doubling.py"
    assert made.out.startswith(f"new   {file.relative_to(tmp_path)}")
    for text, standard in ((BRONZE, "bronze"), (GOLD, "gold")):
        file.write_text(text)
        scored = grade("task", "doubling", cwd=tmp_path)
        assert (scored.code, standard in scored.out) == (0, True), scored.out + scored.err
    assert "Your best so far. It was 12 before." in scored.out
    assert [entry.facts["score"] for entry in log.read(file.parent) if entry.kind == "scored"] == [12, 4]
    assert "gold, 4" in grade("list", "doubling", cwd=tmp_path).out
    (row,) = json.loads(grade("list", "--json", "doubling", cwd=tmp_path).out)["tasks"]
    assert (row["best"], row["class"], row["part"]) == (4, "gold", "I. Windows")
    quick = grade("task", "doubling", str(file), "--quick", "--json", cwd=tmp_path)
    assert (quick.code, json.loads(quick.out)["class"], json.loads(quick.out)["score"]) == (1, None, 4)
    assert len([entry for entry in log.read(file.parent) if entry.kind == "scored"]) == 2


def test_what_is_asked_wrongly(grade: Grade, doubling: Path, tmp_path: Path):
    wrong = grade("task", "dubling", cwd=tmp_path)
    assert (wrong.code, wrong.err) == (2, "grade: There is no open task 'dubling'. Did you mean 'doubling'?\n")
    missing = grade("task", "doubling", "none.py", cwd=tmp_path)
    assert (missing.code, "There is no file none.py" in missing.err) == (2, True)
    both = grade("verify", "doubling", "01", cwd=tmp_path)
    assert (both.code, "two commands" in both.err) == (2, True)


def test_a_bundle_has_the_task_without_its_solutions(doubling: Path, tmp_path: Path):
    bundle = tmp_path / "bundle"
    lines = list(pack.pack(bundle, [catalog.find("01")]))
    assert "doubling  an open task" in lines
    assert sorted(path.name for path in (bundle / "tasks" / "doubling").iterdir()) == [
        "evidence.py", "offer.py", "page.md", "stub.py", "task.py",
    ]  # fmt: skip
    assert not (bundle / "solutions").exists()
    assert [task.name for task in course.read(bundle).tasks] == ["doubling"]
    assert '"tasks"' in (bundle / "pyproject.toml").read_text()
    assert "doubling" not in "".join(pack.pack(tmp_path / "other", [catalog.find("02")]))
    assert not (bundle / "problems" / "stage").exists()


def test_a_bundle_has_the_trained_weights_that_its_task_needs(doubling: Path, tmp_path: Path):
    with (doubling / "tasks" / "doubling" / "evidence.py").open("a") as file:
        file.write("from problems.stage import weights\n")
    list(pack.pack(tmp_path / "bundle", [catalog.find("01")]))
    assert (tmp_path / "bundle" / "problems" / "stage" / "pocket.safetensors").is_file()
