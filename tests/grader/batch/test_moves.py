"""An author gives problems other numbers between two weeks: results, decisions and published marks stay with them."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Grade
from tests.grader.batch.conftest import table

EXAMPLE = ROOT / "docs" / "examples" / "smoothing"
MOVED = {
    "p01_moving_average": "p02_moving_average",
    "p02_exponential_average": "p01_exponential_average",
    "builds_on=(1,)": "builds_on=(2,)",
}


def move(course: Path) -> None:
    """Swaps the numbers of the two problems of a course, in the names of their files and in the texts."""
    for path in sorted(course.rglob("*"), reverse=True):
        if path.suffix in (".py", ".toml", ".md"):
            text = path.read_text()
            for old, new in MOVED.items():
                text = text.replace(old, new)
            path.write_text(text)
        if path.stem in MOVED:
            path.rename(path.with_stem(MOVED[path.stem]))


@pytest.mark.thorough
def test_results_follow_their_problems(grade: Grade, tmp_path: Path):
    signals = tmp_path / "signals"
    shutil.copytree(EXAMPLE, signals, ignore=shutil.ignore_patterns("__pycache__", "tests", "docs"))
    average, exponential = ((signals / "solutions" / f"{name}.py").read_text() for name in list(MOVED)[:2])
    for name in ("ada", "bob"):
        folder = tmp_path / "class" / name
        folder.mkdir(parents=True)
        (folder / "p01_moving_average.py").write_text(average)
        (folder / "p02_exponential_average.py").write_text(exponential + "\n\nimport p01_moving_average\n")
    (tmp_path / "class" / "cyd").mkdir()
    (tmp_path / "class" / "cyd" / "p02_exponential_average.py").write_text("x = (")
    command = ("--course", signals, "batch", "class", "--out", "results", "--format", "canvas")
    first = grade(*command)
    assert first.code == 0, first.err
    before = {(row["learner"], row["problem"][4:]): row for row in table(tmp_path / "results" / "results.csv")}
    decided = grade("--course", signals, "results", "results", "--set", "ada", "01", "2", "--because", "copied")
    assert decided.code == 0, decided.err

    move(signals)
    shutil.rmtree(tmp_path / "class" / "bob")
    moved = grade(*command)
    assert moved.code == 0, moved.err
    for sentence in (
        "Note: problem 01 is problem 02 now and keeps its results. In gradebooks it is called '02 Moving average'",
        "Note: problem 02 is problem 01 now and keeps its results. In gradebooks it is called '01 Exponential average'",
        "1 learner with earlier submissions in results is not among these submissions, and the earlier ones count: bob",
    ):
        assert sentence in moved.out
    assert "not the stored results of" not in moved.out
    assert "Mark:" not in moved.out
    rows = {(row["learner"], row["problem"]): row for row in table(tmp_path / "results" / "results.csv")}
    assert {problem for _, problem in rows} == {"p02_moving_average", "p01_exponential_average"}
    for (learner, problem), row in rows.items():
        earlier = before[learner, problem[4:]]
        assert {name: row[name] for name in ("verdict", "score", "attempts")} == {
            name: earlier[name] for name in ("verdict", "score", "attempts")
        }
    assert (rows["ada", "p02_moving_average"]["adjusted"], rows["ada", "p02_moving_average"]["decided"]) == (
        "2", "by hand: copied",
    )  # fmt: skip
    assert not (tmp_path / "results" / "changes.csv").read_text().count("copied") > 1
    again = grade(*command)
    assert "To grade: 0. Unchanged: 2." in again.out
    assert "keeps its results" not in again.out
