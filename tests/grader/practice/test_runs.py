"""Hunts in whole runs. The training is replaced by what it leaves; `grade verify --runs` trains for each of them."""

import json

import pytest

from commandline.errors import UsageError
from grader.cli.run_hunt import Answers, hunt_in_run
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.practice import runs
from grader.practice.runs import STEPS, Evidence, RunSpace

SOUND = Evidence(tuple(8.0 - 0.05 * step for step in range(STEPS)), 5.1)


def falling(first: float, last: float, validation: float | None = None) -> Evidence:
    losses = tuple(first + (last - first) * step / (STEPS - 1) for step in range(STEPS))
    return Evidence(losses, last if validation is None else validation)


@pytest.mark.parametrize(
    ("broken", "kind", "part"),
    [
        (falling(8.0, 1.0), "too good", "too good to be true. Its loss is 8.00 at the first step and 1.00 after 60"),
        (falling(11.0, 7.0), "run", "wrong before anything was learned"),
        (falling(8.0, 7.9), "run", "stuck"),
        (falling(8.0, 6.0), "run", "worse than it should"),
        (falling(8.0, 5.05, 6.0), "run", "validation loss does not fit"),
        (Evidence((8.0, float("nan")), 8.0), "run", "does not stay finite"),
        (Evidence(SOUND.losses, 5.1, skipped=7), "run", "7 updates were skipped"),
    ],
)
def test_what_a_run_shows(broken, kind, part):
    seen = runs.symptom(broken, SOUND)
    assert seen is not None
    assert (seen.kind.name, part in seen.text) == (kind, True), seen.text


@pytest.mark.parametrize("broken", [SOUND, falling(8.0, 5.0), Evidence(stopped="CausalMHA returned float32[3]")])
def test_runs_that_show_nothing_or_name_the_piece_are_not_offered(broken):
    assert runs.symptom(broken, SOUND) is None


def test_the_metrics_of_the_harness_are_read(tmp_path):
    rows = [
        {"step": 1, "loss": 8.25, "validation_loss": None, "skipped": 0},
        {"step": 2, "loss": None, "validation_loss": 8.5, "skipped": 1},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = runs.evidence(tmp_path)
    assert (found.losses[0], found.validation, found.skipped) == (8.25, 8.5, 1)
    assert found.losses[1] != found.losses[1], "NaN"


def test_there_are_enough():
    problems = [catalog.load(name) for name in catalog.names() if name.slug in runs.PIECES]
    assert len(problems) == len(runs.PIECES) == 8
    assert len(list(runs.possible(problems))) > 100


@pytest.fixture
def home(tmp_path) -> Workspace:
    """A workspace in which the eight problems were passed."""
    home = Workspace(tmp_path)
    for name in catalog.names():
        if name.slug in runs.PIECES:
            home.remember(catalog.load(name), verdict="PASS", score=1)
    return home


def test_all_eight_must_be_passed(tmp_path):
    with pytest.raises(UsageError, match="you have not passed 01 yet"):
        RunSpace(Workspace(tmp_path)).pieces()


def test_a_hunt(home, monkeypatch, capsys):
    """A run that shows nothing is not taken. The sound pieces are not left beside the broken one."""
    trained = []

    def train(folder, name):
        trained.append((folder, name))
        return SOUND if name == "sound" or len(trained) < 3 else falling(8.0, 1.0)

    monkeypatch.setattr(runs, "train", train)
    assert hunt_in_run(home, Answers()) == 0
    assert "The loss is too good to be true." in capsys.readouterr().out
    assert [name for _, name in trained] == ["sound", "broken", "broken"]
    space = RunSpace(home)
    current = space.under_way()
    assert current is not None
    program = space.program(current)
    folder = space.folder(current)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert len(list(folder.rglob("*.py"))) == 8
    broken = folder / f"{program.hunt.problem.name}.py"
    assert broken.read_text() == program.text
    assert space.changed(current) == []

    other = next(problem for problem in space.pieces() if problem.name != program.hunt.problem.name)
    hunt_in_run(home, Answers(piece=other.label))
    assert f"Piece {other.label} is sound." in capsys.readouterr().out
    hunt_in_run(home, Answers(piece=program.hunt.problem.label, line=min(program.fault)))
    assert "Which idea is behind it?" in capsys.readouterr().out
    hunt_in_run(home, Answers(idea="ABCD"[program.answer]))
    assert "Yes, that is the idea." in capsys.readouterr().out
    (folder / f"{other.name}.py").write_text("x = 1\n")
    assert space.changed(current) == [other]
    hunt_in_run(home, Answers(give_up=True))
    assert program.hunt.misconception.name in capsys.readouterr().out
    assert space.under_way() is None
    with pytest.raises(UsageError, match="No hunt in a run is under way"):
        hunt_in_run(home, Answers(hint=True))
