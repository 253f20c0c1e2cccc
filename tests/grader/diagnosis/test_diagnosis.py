"""A run that went wrong, from its folder to the score, with a trainer that takes no time: numbers that depend on the
cause and on what is changed."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from commandline.errors import CommandError, UsageError
from grader.cli.task import task
from grader.course import tasks
from grader.course.workspace import Workspace
from grader.diagnosis.case import FILED, Case, begin, cause_of, draw
from grader.isolation import child
from tests.conftest import cli_runner

pytestmark = pytest.mark.fast
NAMES = ("sick_restart", "quiet_fault")
BEGINS, SICK, SOUND, CLIPPED = 80, 5.0, 2.5, 4.0
GOOD = """
cause = "{cause}"
step = 84
[prediction]
change = "{change}"
quantity = "loss"
step = 100
interval = [{low}, {high}]
"""


class Ward:
    """A learner's workspace, and the command."""

    def __init__(self, folder: Path, name: str = NAMES[0]) -> None:
        found = tasks.find(name)
        self.name, self.task, self.space = name, found, Workspace(folder)

    def run(self, *words: str) -> Result:
        return cli_runner().invoke(task, [self.name, *words], obj=str(self.space.folder))

    @property
    def case(self) -> Case:
        found = Case.under_way(self.space, self.task)
        assert found is not None
        return found

    def file(self, *, cause: str = "", change: str = "mend", low: float = 2.2, high: float = 2.8) -> None:
        cause = cause or self.case.cause.name
        text = GOOD.format(cause=cause, change=change, low=low, high=high)
        (self.case.folder / "diagnosis.toml").write_text(text)

    @property
    def others(self) -> list[str]:
        return [each.name for each in self.task.causes if each.name != self.case.cause.name]

    def judged(self, **facts: Any) -> dict[str, Any]:
        self.file(**facts)
        return dict(json.loads(self.run("--json").stdout))

    def entries(self, kind: str) -> list[Any]:
        return [each for each in self.space.entries() if each.kind == kind]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Replaces the trainer, and returns what it was asked for."""
    asked: list[tuple[str, ...]] = []

    def train(module: str, cause: str, seed: str, folder: str, *words: str, stdin: str) -> str:
        assert (cause, bool(stdin)) == ("-", True)  # a list of processes would show it
        asked.append((stdin, seed, *words))
        late = SOUND if "--mend" in words else CLIPPED if "--set" in words else SICK
        home = Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        lines = [{"step": step, "loss": late if step >= BEGINS else SOUND} for step in range(1, 151)]
        (home / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (home / "norms.jsonl").write_text(
            "".join(f'{{"step": {step}, "embed.update": 0.5}}\n' for step in range(1, 151))
        )
        return json.dumps({"begins": BEGINS})

    monkeypatch.setattr(child, "run", train)
    return asked


@pytest.fixture
def ward(tmp_path: Path, trained: list[tuple[str, ...]]) -> Ward:
    made = Ward(tmp_path)
    made.run()
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_first_call_makes_a_run_and_a_form(name: str, tmp_path: Path, trained: list[tuple[str, ...]]) -> None:
    ward = Ward(tmp_path, name)
    found = ward.run()
    assert found.exit_code == 1
    assert "went wrong. Find out why" in " ".join(found.output.split())
    assert (ward.case.run / "metrics.jsonl").is_file()
    ward.run()  # the form names no cause yet
    assert len(trained) == 1


def test_a_run_that_is_made_before_there_is_a_workspace_stays(tmp_path: Path, trained: list[tuple[str, ...]]) -> None:
    ward = Ward(tmp_path / "new")
    ward.run()
    seed = ward.case.seed
    ward.run()
    assert ward.case.seed == seed
    assert len(trained) == 1


def test_nothing_that_a_learner_gets_names_the_cause(ward: Ward) -> None:
    log = "".join(path.read_text() for path in ward.space.folder.glob(".progress*"))
    assert not [each.name for each in ward.task.causes if each.name in log]


def test_a_prediction_of_a_step_before_the_cause_is_refused_and_costs_nothing(ward: Ward) -> None:
    ward.file()
    path = ward.case.folder / "diagnosis.toml"
    path.write_text(path.read_text().replace("step = 100", "step = 83"))
    assert "`step` of [prediction] is 84 or later" in str(ward.run().exception)
    assert not ward.entries(FILED)


def test_a_right_diagnosis_is_scored(ward: Ward, trained: list[tuple[str, ...]]) -> None:
    found = ward.judged()
    assert (found["class"], found["score"], found["was"], found["is"]) == ("gold", 24, SICK, SOUND)
    assert trained[-1][2:] == ("--figures", "--mend")
    assert tasks.best(ward.task, ward.space.entries()) == (24, "gold", (24,))
    assert Case.under_way(ward.space, ward.task) is None


def test_the_report_says_what_the_cause_looks_like(ward: Ward) -> None:
    ward.file()
    sign = ward.case.cause.sign
    found = ward.run()
    assert found.exit_code == 0
    assert sign in " ".join(found.output.split())


def test_a_wrong_cause_costs_and_the_run_stays(ward: Ward, trained: list[tuple[str, ...]]) -> None:
    wrong, cause = ward.others[0], ward.case.cause.name
    assert ward.judged(cause=wrong)["score"] is None
    assert len(trained) == 1  # what is not there need not be taken out
    assert ward.judged(cause=wrong, low=2.3)["score"] is None
    assert ward.case.wrong == 1  # the same cause costs once
    assert ward.judged()["score"] == 124
    assert ward.entries(tasks.SCORED)[-1].names("missed") == (cause,)


def test_guessing_is_in_no_class(ward: Ward) -> None:
    for name in ward.others:
        ward.judged(cause=name)
    assert ward.judged()["class"] is None


def test_a_setting_is_tried_with_the_cause_in_the_run(ward: Ward, trained: list[tuple[str, ...]]) -> None:
    ward.file(cause=ward.others[0], change="clip_norm=0.3", low=3.5, high=4.5)
    assert "is 4, which your interval holds" in " ".join(ward.run().output.split())
    assert ward.judged(change="clip_norm=0.3", low=3.8, high=4.2)["prediction"] == 40
    assert trained[-1][2:] == ("--figures", "--set", "clip_norm=0.3")


def test_an_interval_costs_its_width_and_what_it_misses(ward: Ward, tmp_path: Path) -> None:
    assert ward.judged(low=2.0, high=4.9)["prediction"] == 116
    ward.run()
    assert ward.judged(low=3.0, high=3.1)["prediction"] == 204
    ward.run()
    assert ward.judged(low=-1e9, high=4.9)["prediction"] == 1000


def test_the_first_prediction_with_the_right_cause_counts(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    ward.file(low=3.0, high=3.1)
    working = child.run

    def killed(*words: str, stdin: str) -> str:
        raise CommandError("killed")

    monkeypatch.setattr(child, "run", killed)
    assert isinstance(ward.run().exception, CommandError)
    monkeypatch.setattr(child, "run", working)
    assert ward.judged(low=2.4, high=2.6)["prediction"] == 204
    assert len(ward.entries(FILED)) == 1


def test_a_folder_that_was_not_finished_is_made_again(
    tmp_path: Path, trained: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ward, working = Ward(tmp_path), child.run

    def killed(*words: str, stdin: str) -> str:
        working(*words, stdin=stdin)
        raise CommandError("killed")

    monkeypatch.setattr(child, "run", killed)
    ward.run()
    seed = ward.case.seed
    assert not ward.case.run.exists()
    monkeypatch.setattr(child, "run", working)
    ward.run()
    assert ward.case.seed == seed
    assert ward.judged()["class"] == "gold"


def test_figures_that_were_edited_are_refused(ward: Ward) -> None:
    path = ward.case.run / "metrics.jsonl"
    path.write_text(path.read_text().replace(str(SICK), "1.5"))
    ward.file(low=4.0, high=6.0)
    assert "are not those that the run wrote" in str(ward.run().exception)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("[2.2, 2.8]", "[2.2, 9.0]"), "loss at step 100 is 5 in the run as it is, which your interval [2.2, 9] holds"),
        (('"loss"', '"lost"'), "no number for 'lost' at step 100. It has loss, embed.update"),
        (("step = 100", "step = 151"), "`step` of [prediction] is a number from 1 to 150; it is 151"),
        (("step = 84", "step = -1"), "`step` is a number from 0 to 150; it is -1"),
        (('"mend"', '"learning_rate=0"'), "`change` of [prediction] is mend or one of clip_norm=0.1"),
        (("[2.2, 2.8]", "[2.8, 2.2]"), "`interval` of [prediction] begins with its lower end"),
        (("[prediction]", "[guess]"), "the file has no 'guess'"),
        (("quantity", "quantities"), "[prediction] has no 'quantities'"),
        (("cause = ", "cause "), "is not TOML"),
    ],
)
def test_a_diagnosis_that_says_nothing_is_refused_in_a_sentence(
    ward: Ward, change: tuple[str, str], sentence: str
) -> None:
    ward.file()
    path = ward.case.folder / "diagnosis.toml"
    path.write_text(path.read_text().replace(*change))
    found = ward.run()
    assert isinstance(found.exception, UsageError)
    assert sentence in str(found.exception)
    assert not ward.entries(FILED)


def test_a_cause_that_is_none_is_refused(ward: Ward) -> None:
    ward.file(cause="bad_luck")
    assert "`cause` is one of restart_rate, " in str(ward.run().exception)


def test_giving_up_tells_the_cause_and_the_next_run_has_it_again(ward: Ward) -> None:
    cause = ward.case.cause
    assert cause.what in " ".join(ward.run("--give-up").output.split())
    assert not tasks.best(ward.task, ward.space.entries())
    ward.run()
    assert (ward.case.cause, ward.case.number) == (cause, 2)
    ward.judged()
    ward.run("--give-up")
    drawn = {draw(ward.space, ward.task).cause.name for _ in range(40)}
    assert drawn == set(ward.task.drawn)


def test_there_is_nothing_to_give_up_before_a_run(tmp_path: Path) -> None:
    assert "makes one" in str(Ward(tmp_path).run("--give-up").exception)
    found = cli_runner().invoke(task, ["qk_norm_rate", "--give-up"], obj=str(tmp_path))
    assert "has nothing to give up" in str(found.exception)


def test_a_seed_says_nothing_about_the_cause(tmp_path: Path) -> None:
    ward = Ward(tmp_path)
    found = [cause_of(ward.task, seed).name for seed in range(400)]
    assert all(60 < found.count(name) < 140 for name in ward.task.drawn)
    assert begin(ward.space, ward.task, 5).number == 1
