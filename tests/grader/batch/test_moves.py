"""A course that moves a problem between two weeks: its results, decisions and published marks stay with it."""

import shutil
from pathlib import Path

from tests.conftest import ROOT, Grade
from tests.grader.batch.conftest import table

EXAMPLE = ROOT / "docs" / "examples" / "smoothing"
COURSE = 'title = "Mixed"\n[[part]]\ntitle = "I"\nproblems = [{}, {}]\n'
NORM, AVERAGE = '{ include = "layer_norm" }', '"moving_average"'


def test_results_follow_their_problems(grade: Grade, tmp_path: Path):
    signals = tmp_path / "signals"
    shutil.copytree(EXAMPLE, signals, ignore=shutil.ignore_patterns("__pycache__"))
    (signals / "course.toml").write_text(COURSE.format(NORM, AVERAGE))
    norm = (ROOT / "solutions" / "p04_layer_norm.py").read_text()
    average = (signals / "solutions" / "p01_moving_average.py").read_text()
    for name in ("ada", "bob"):
        folder = tmp_path / "class" / name
        folder.mkdir(parents=True)
        (folder / "p01_layer_norm.py").write_text(norm)
        (folder / "p02_moving_average.py").write_text(average + "\n\nimport p01_layer_norm\n")
    (tmp_path / "class" / "cyd").mkdir()
    (tmp_path / "class" / "cyd" / "p02_moving_average.py").write_text("x = (")
    command = ("--course", signals, "batch", "class", "--out", "results", "--format", "canvas")
    first = grade(*command)
    assert first.code == 0, first.err
    before = {(row["learner"], row["problem"][4:]): row for row in table(tmp_path / "results" / "results.csv")}
    decided = grade("--course", signals, "results", "results", "--set", "ada", "01", "2", "--because", "copied")
    assert decided.code == 0, decided.err

    (signals / "course.toml").write_text(COURSE.format(AVERAGE, NORM))
    shutil.rmtree(tmp_path / "class" / "bob")
    moved = grade(*command)
    assert moved.code == 0, moved.err
    for sentence in (
        "Note: problem 01 is problem 02 now and keeps its results. In gradebooks it is called '02 Layer norm",
        "Note: problem 02 is problem 01 now and keeps its results. In gradebooks it is called '01 Moving average'",
        "1 learner with earlier submissions in results is not among these submissions, and the earlier ones count: bob",
    ):
        assert sentence in moved.out
    assert "not the stored results of" not in moved.out
    assert "Mark:" not in moved.out
    rows = {(row["learner"], row["problem"]): row for row in table(tmp_path / "results" / "results.csv")}
    assert {problem for _, problem in rows} == {"p01_moving_average", "p02_layer_norm"}
    for (learner, problem), row in rows.items():
        earlier = before[learner, problem[4:]]
        assert {name: row[name] for name in ("verdict", "score", "attempts")} == {
            name: earlier[name] for name in ("verdict", "score", "attempts")
        }
    assert (rows["ada", "p02_layer_norm"]["adjusted"], rows["ada", "p02_layer_norm"]["decided"]) == (
        "2", "by hand: copied",
    )  # fmt: skip
    assert not (tmp_path / "results" / "changes.csv").read_text().count("copied") > 1
    again = grade(*command)
    assert "To grade: 0. Unchanged: 2." in again.out
    assert "keeps its results" not in again.out
