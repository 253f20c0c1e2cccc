"""A term of a class: whatever happens to the course and the machine, a mark that changes is listed, and no other one
does."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Grade, Run
from tests.grader.batch.conftest import table

EXAMPLE = ROOT / "docs" / "examples" / "smoothing"
NAME = "p01_moving_average"
COURSE = 'title = "Signals"\nprivate = true\n[[part]]\ntitle = "I"\nproblems = [{}]\n'
FAULT = "\n\n_right = moving_average\n\n\ndef moving_average(x, window):\n    return _right(x, window) * 1.5\n"
ROSTER = "Student,ID,SIS User ID,Section\nAda,1,ada,A\nBob,2,bob,A\nCyd,3,cyd,A\nLuc,4,luc,A\n"
RULES = "due: 2026-11-02\npenalty: 10%\nextensions: {ada: 2 days}\n"

Marks = dict[str, float]
Changes = list[tuple[str, float, float]]


class Term:
    """The class from week to week."""

    def __init__(self, grade: Grade, folder: Path) -> None:
        self.grade, self.folder = grade, folder
        self.signals, self.results = folder / "signals", folder / "results"
        shutil.copytree(EXAMPLE, self.signals, ignore=shutil.ignore_patterns("__pycache__"))
        self.reference = self.signals / "solutions" / f"{NAME}.py"
        self.right = self.reference.read_text()
        self.count(f'"{NAME}"')
        self.marks: Marks = {}

    def count(self, problem: str) -> None:
        """Puts the problem into the course, with its points."""
        (self.signals / "course.toml").write_text(COURSE.format(problem))

    def hand_in(self, learner: str, text: str) -> None:
        path = self.folder / "class" / learner / f"{NAME}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def batch(self, *options: object, submitted: tuple[str, ...] = (), cwd: Path | None = None, **env: str) -> Run:
        """Grades the class, and asserts that each mark without a new submission stays, or is listed."""
        command = ("--course", self.signals, "batch", self.folder / "class", "--out", self.results, *options)
        return self._followed(lambda: self.grade(*command, cwd=cwd or self.folder, **env), submitted)

    def decide(self, *options: str) -> Run:
        return self._followed(lambda: self.grade("--course", self.signals, "results", self.results, *options), ())

    def listed(self) -> Changes:
        path = self.results / "changes.csv"
        rows = table(path) if path.exists() else []
        return [(row["learner"], float(row["mark_before"]), float(row["mark_after"])) for row in rows]

    def _followed(self, command: Callable[[], Run], submitted: tuple[str, ...]) -> Run:
        before, listed = self.marks, self.listed()
        run = command()
        assert run.code == 0, run.out + run.err
        self.marks = {row["learner"]: float(row["adjusted"]) for row in table(self.results / "results.csv")}
        changed = {
            (name, before[name], mark)
            for name, mark in self.marks.items()
            if name in before and before[name] != mark and name not in submitted
        }
        rest = [row for row in listed if row[0] in self.marks]
        new = [row for row in self.listed() if row[0] in self.marks][len(rest) :]
        assert {row for row in new if row[1] != row[2]} == changed
        return run


@pytest.mark.thorough
def test_a_term(grade: Grade, tmp_path: Path):
    term = Term(grade, tmp_path)
    (tmp_path / "secret").write_text("a secret of the class")
    (tmp_path / "roster.csv").write_text(ROSTER)
    (tmp_path / "rules.yml").write_text(RULES)
    ada, bob, cyd, luc = "ada", "bob", "cyd", "luc"
    for learner, text in {
        ada: term.right, bob: "def moving_average(x, window):\n    return x\n", cyd: term.right + "\n\nMINE = 1\n",
        luc: term.right + FAULT,
    }.items():  # fmt: skip
        term.hand_in(learner, text)

    term.reference.write_text(term.right + FAULT)
    files = ("--seed-file", "secret", "--roster", "roster.csv", "--deadlines", "rules.yml")
    term.batch(*files)
    assert term.marks[luc] == 5, "the fault of the reference"
    assert max(term.marks[ada], term.marks[cyd]) < 5
    first = term.marks

    term.count(f'{{ problem = "{NAME}", points = 15 }}')
    term.batch()
    assert term.marks == {name: 3 * mark for name, mark in first.items()}

    term.reference.write_text(term.right)
    mended = term.batch("--never-lower")
    assert (term.marks[ada], term.marks[cyd], term.marks[luc]) == (15, 15, 15)
    assert "kept, grading gives" in mended.out

    term.hand_in(bob, term.right + "\n\nMINE = 2\n")
    term.batch(submitted=(bob,))
    assert term.marks[bob] == 15

    (tmp_path / "elsewhere").mkdir()
    taken_over = term.batch(cwd=tmp_path / "elsewhere")
    for option in ("--seed-file", "--roster", "--deadlines"):
        assert f"Note: {option} is " in taken_over.out
    assert "To grade: 0." in taken_over.out
    term.decide("--set", bob, "01", "14", "--because", "shown in person")
    assert term.marks[bob] == 14

    withdrawn = term.decide("--forget", cyd)
    assert "is deleted" in withdrawn.out
    shutil.rmtree(tmp_path / "class" / cyd)
    (tmp_path / "roster.csv").write_text(ROSTER.replace("Cyd,3,cyd,A\n", ""))
    term.batch()
    assert set(term.marks) == {ada, bob, luc}
    assert cyd not in (term.results / "gradebook.csv").read_text().casefold()

    other_image = tmp_path / "image" / "tiktoken-99.0.dist-info"
    other_image.mkdir(parents=True)
    (other_image / "METADATA").write_text("Metadata-Version: 2.1\nName: tiktoken\nVersion: 99.0\n")
    regraded = term.batch(PYTHONPATH=str(other_image.parent))
    assert "a package changed since problem 01 was graded, so its results are graded again" in regraded.out
    assert "To grade: 0." not in regraded.out
    assert {row["because"] for row in table(term.results / "changes.csv")} == {
        "the points of its checks changed", "by hand: shown in person",
        "the problem, the grader or a package changed", "the problem, the grader or a package changed; kept, grading "
            "gives 0",
    }  # fmt: skip
