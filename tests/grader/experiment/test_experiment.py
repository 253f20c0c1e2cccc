"""An experiment from the claim to the score, with a trainer that takes no time: a loss that depends on the arm, the
rate and the seed."""

import itertools
import json
import random
import re
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from commandline.errors import UsageError
from grader.cli.task import claim, task
from grader.course import tasks
from grader.course.attempts import DRAWN, record
from grader.course.workspace import Workspace
from grader.experiment import arms
from grader.experiment.claim import factor_of, flaws, folder_of, read
from grader.experiment.report_file import Found, filled, verdict_in, verdict_of
from grader.isolation import child
from tests.conftest import cli_runner

pytestmark = pytest.mark.fast
NAME = "qk_norm_rate"
GAIN = -0.08  # of the new arm, in nats
GOOD = """
expects = "lower"
matters = 0.03
interval = [-0.1, -0.05]
change_my_mind = "an interval above minus three hundredths"
seeds = 3
[baseline]
value = "{baseline}"
rates = [0.01, 0.02]
steps = 120
[new]
value = "{new}"
rates = [0.01, 0.02]
steps = 120
"""
REPORT = """The losses are {{baseline:test}} and {{new:test}} with {{seeds}} seeds, a difference of {{difference}},
{{interval}}; the rates are {{new:rate}} and {{baseline:rate}}.

Verdict: supports
"""


class Lab:
    """A learner's workspace, and the commands."""

    def __init__(self, folder: Path) -> None:
        self.task = tasks.find(NAME)
        self.space = Workspace(folder)
        self.folder = folder_of(self.space, self.task)
        self.run("task")
        self.factor = factor_of(self.space, self.task)

    def run(self, *words: str) -> Result:
        command = {"task": task, "claim": claim}[words[0]]
        return cli_runner().invoke(command, [NAME, *words[1:]], obj=str(self.space.folder))

    def write(self, text: str = GOOD, report: str = "") -> None:
        text = text.format(baseline=self.factor.baseline, new=self.factor.others[0])
        (self.folder / "claim.toml").write_text(text)
        if report:
            (self.folder / "report.md").write_text(report)

    def claimed(self, text: str = GOOD, report: str = "") -> Result:
        self.write(text, report)
        return self.run("claim")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the harness, and returns the names of the runs that it trained."""
    names: list[str] = []

    def loss(settings: dict[str, str]) -> float:
        noise = random.Random(settings["seed"]).gauss(3, 0.05)
        own = random.Random(f"{settings['seed']} {settings['arm']}").gauss(0, 0.004)
        rate = 100 * (float(settings["learning_rate"]) - 0.02) ** 2
        return noise + own + rate + (GAIN if settings["arm"] == "new" else 0.0)

    def run(module: str, *words: str) -> str:
        if module != "harness":
            Path(words[-1]).write_text("a story")
            return ""
        runs = Path(words[words.index("--runs") + 1])
        if words[0] == "eval":
            known = json.loads((runs / words[1] / "config.json").read_text())
            return json.dumps({"loss": loss(known) + 0.1})
        name = words[words.index("--run") + 1]
        given = [word for before, word in itertools.pairwise(words) if before == "--set"]
        settings = dict(each.partition("=")[::2] for each in given) | {"arm": name.partition("-")[0]}
        folder = runs / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(settings))
        end = loss(settings) if float(settings["learning_rate"]) > 0.001 else 7.0
        rows = [
            {"step": 1, "loss": 7.6},
            {"step": int(settings["steps"]), "loss": end, "validation_loss": end, "time": 1},
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        names.append(name)
        return ""

    monkeypatch.setattr(child, "run", run)
    return names


@pytest.fixture
def lab(tmp_path: Path, trained: list[str]) -> Lab:
    return Lab(tmp_path)


def test_a_good_experiment_is_scored(lab: Lab, trained: list[str]) -> None:
    assert "flaw" not in lab.claimed().output
    first = lab.run("task")
    assert first.exit_code == 1
    assert len(trained) == 8  # two rates for each arm, then two more seeds
    assert "baseline-0.02-2" in first.output
    lab.write(report=REPORT)
    done = json.loads(lab.run("task", "--json").stdout)
    assert (done["class"], done["flaws"], done["width"]) == ("gold", [], 50)
    assert done["truth"] == pytest.approx(GAIN, abs=0.02)
    report = (lab.folder / "report_filled.md").read_text()
    assert re.search(r"a difference of -0\.0\d{3},", report)
    assert tasks.best(lab.task, lab.space.entries()).standard == "gold"


def test_runs_go_on_where_they_were(lab: Lab, trained: list[str]) -> None:
    lab.claimed()
    lab.run("task")
    kept = len(trained)
    lab.run("task")
    assert len(trained) == kept


def test_a_careless_design_costs(lab: Lab) -> None:
    careless = GOOD.replace("seeds = 3", "seeds = 1").replace("steps = 120\n[new]", "steps = 100\n[new]")
    careless = careless.replace("rates = [0.01, 0.02]", "rates = [0.02]", 1) + 'settings = ["beta2=0.9"]\n'
    named = lab.claimed(careless, REPORT.replace("supports", "undecided")).output
    for part in ("beta2=0.9", "20% more tokens", "1 seed cannot show", "tries 2 learning rates"):
        assert part in " ".join(named.split())
    done = json.loads(lab.run("task", "--json").stdout)
    assert len(done["flaws"]) == 4
    assert done["class"] is None


def test_a_wide_interval_says_little_and_a_wrong_one_less(lab: Lab) -> None:
    def score(interval: str) -> int:
        lab.claimed(GOOD.replace("[-0.1, -0.05]", interval), REPORT)
        return int(json.loads(lab.run("task", "--json").stdout)["score"])

    good, wide, wrong = score("[-0.1, -0.05]"), score("[-0.3, 0.3]"), score("[0.0, 0.05]")
    assert good < wide < wrong


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (REPORT.replace("{{difference}}", "-0.08"), "0.08 is typed"),
        (REPORT + "\nIt is better by 3 %.", "3 % is typed"),
        (REPORT.replace("{{difference}}", "{{gain}}"), "there is no {{gain}}"),
        ("Better.\nVerdict: supports", "must show {{difference}} and {{interval}}"),
        (REPORT.replace("supports", "proves"), "it is 'proves'"),
        (REPORT.replace("supports", "contradicts"), "follows 'supports'"),
    ],
)
def test_a_report_whose_numbers_or_verdict_do_not_come_from_the_runs_is_refused(
    lab: Lab, report: str, sentence: str
) -> None:
    lab.claimed(report=report)
    found = lab.run("task")
    assert found.exit_code
    assert sentence in " ".join(f"{found.output} {found.exception or ''}".split())


@pytest.mark.parametrize("typed", ["0.03", "0.010 and 0.02", "-0.05"])
def test_numbers_that_were_said_before_the_runs_may_be_typed(lab: Lab, typed: str) -> None:
    lab.claimed(report=f"{REPORT}I claimed {typed}.\n{lab.factor.question}\n")
    assert lab.run("task").exit_code == 0


def test_the_report_that_is_written_for_a_learner_needs_only_a_verdict(tmp_path: Path, trained: list[str]) -> None:
    for number in range(4):
        lab = Lab(tmp_path / str(number))
        lab.claimed()
        report = (lab.folder / "report.md").read_text()
        (lab.folder / "report.md").write_text(report.replace("Verdict:", "Verdict: supports"))
        assert lab.run("task").exit_code == 0


def test_a_report_that_is_missing_is_written_again_and_the_claim_stands(lab: Lab) -> None:
    lab.claimed()
    (lab.folder / "report.md").unlink()
    assert "All runs are done. Write" in " ".join(lab.run("task").output.split())
    assert (lab.folder / "report.md").is_file()


def test_where_nothing_is_learned_there_is_no_score(lab: Lab) -> None:
    lab.claimed(GOOD.replace("[0.01, 0.02]", "[0.000001]"), REPORT)
    assert "Neither arm ends at half of its first loss" in " ".join(lab.run("task").output.split())


def test_a_run_that_the_harness_refuses_says_what_to_change(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    lab.claimed(GOOD.replace("steps = 120", 'steps = 120\nsettings = ["betta2=1"]'))
    found = lab.run("task")
    assert isinstance(found.exception, UsageError)
    assert "Did you mean beta2? Change claim.toml" in str(found.exception)


def test_runs_of_before_the_claim_do_not_count(lab: Lab) -> None:
    lab.claimed()
    lab.run("task")
    runs = next((lab.folder / "runs").iterdir())
    lab.claimed(GOOD.replace("0.03", "0.02"))  # another claim has other seeds
    claimed = read(lab.folder / "claim.toml", lab.task, lab.factor)
    runs.rename(lab.folder / "runs" / claimed.digest[:8])
    found = lab.run("task")
    assert isinstance(found.exception, UsageError)
    assert "is no run of this claim: it has seed=" in str(found.exception)


def test_runs_of_somebody_else_with_the_same_claim_do_not_count(lab: Lab, tmp_path: Path, trained: list[str]) -> None:
    lab.claimed()
    lab.run("task")
    other = Lab(tmp_path / "other")
    record(other.space, DRAWN, other.task, factor=lab.factor.name)
    other.factor = lab.factor
    other.claimed()
    (other.folder / "runs").mkdir()
    for runs in (lab.folder / "runs").iterdir():
        shutil.copytree(runs, other.folder / "runs" / runs.name)
    assert "is no run of this claim: it has seed=" in str(other.run("task").exception)


def test_a_claim_that_was_changed_after_it_was_made_is_refused(lab: Lab) -> None:
    lab.claimed()
    lab.write(GOOD.replace("-0.05", "0.05"))
    assert "has changed since you claimed" in str(lab.run("task").exception)


def test_nothing_runs_before_a_claim(lab: Lab, trained: list[str]) -> None:
    lab.write()
    assert "the claim comes first" in str(lab.run("task").exception)
    assert not trained


def test_numbers_that_were_edited_are_found(lab: Lab) -> None:
    lab.claimed()
    lab.run("task")
    for path in lab.folder.glob("runs/*/*/metrics.jsonl"):
        row = json.loads(path.read_text().splitlines()[-1])
        path.write_text("".join(json.dumps(each) + "\n" for each in ({"step": 1, "loss": 7.6}, row | {"loss": 2.5})))
    lab.write(report=REPORT)
    assert "was trained again, and the numbers are others" in " ".join(lab.run("task").output.split())


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.json"])
def test_a_run_without_its_files_is_refused_in_a_sentence(lab: Lab, name: str) -> None:
    lab.claimed(report=REPORT)
    lab.run("task")
    next(lab.folder.glob(f"runs/*/new-0.02-1/{name}")).unlink()
    found = lab.run("task").exception
    assert isinstance(found, UsageError)
    assert "and it is trained again" in str(found)


def test_the_test_stories_are_opened_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.claimed(report=REPORT)
    first = lab.run("task")
    opened: list[Path] = []
    monkeypatch.setattr(arms, "loss_on", lambda runs, name, stories: opened.append(stories) or 3.0)
    lab.run("task")
    assert first.exit_code == 0
    assert len(opened) == 4  # of the secret seeds only


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("seeds = 3", "seeds = 0"), "`seeds` is a number from 1 to 6; it is 0"),
        (("[-0.1, -0.05]", "[0.1, -0.05]"), "`interval` begins with its lower end"),
        (("matters = 0.03", "matters = 0"), "`matters` is a difference above 0"),
        (('"lower"', '"better"'), '`expects` is "lower", "higher" or "equal"'),
        (("[baseline]", "[base]"), "the file has no 'base'"),
        (("rates = [0.01, 0.02]", "rates = [2]"), "a list of 1 to 3 learning rates between 0 and 1"),
        (("steps = 120", "steps = 900"), "`steps` of [baseline] is a number from 100 to 200"),
        (("steps = 120", "steps = 30"), "`steps` of [baseline] is a number from 100 to 200"),
        (("steps = 120", 'steps = 120\nsettings = ["seed=1"]'), "may not hold seed"),
        (('value = "{baseline}"', 'value = "x"'), "you vary"),
        (("expects = ", "expects "), "is not TOML"),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused_in_a_sentence(lab: Lab, change: tuple[str, str], sentence: str) -> None:
    found = lab.claimed(GOOD.replace(*change))
    assert isinstance(found.exception, UsageError)
    assert sentence in str(found.exception)


@pytest.mark.parametrize(
    ("expects", "differences", "word"),
    [
        ("lower", (-0.06, -0.05, -0.055), "supports"),
        ("lower", (0.01, 0.0, 0.005), "contradicts"),
        ("lower", (-0.08, 0.02, -0.03), "undecided"),
        ("higher", (0.06, 0.05, 0.055), "supports"),
        ("higher", (-0.06, -0.05, -0.055), "contradicts"),
        ("equal", (0.004, -0.003, 0.001), "supports"),
        ("equal", (0.2, 0.21, 0.19), "contradicts"),
        ("equal", (0.2, -0.21, 0.0), "undecided"),
        ("lower", (-0.5,), "undecided"),
    ],
)
def test_the_verdict_follows_from_claim_and_interval(
    lab: Lab, expects: str, differences: tuple[float, ...], word: str
) -> None:
    lab.write(GOOD.replace('"lower"', f'"{expects}"'))
    made = read(lab.folder / "claim.toml", lab.task, lab.factor)
    found = Found({"baseline": [3.0] * len(differences), "new": [3 + each for each in differences]}, {}, {})
    assert verdict_of(made, found) == word


def test_the_interval_is_that_of_student() -> None:
    from scipy import stats

    for n in range(2, 7):
        values = [random.Random(each).gauss(0, 1) for each in range(n)]
        found = Found({"baseline": [0.0] * n, "new": values}, {}, {}).interval
        expected = stats.t.interval(0.8, n - 1, loc=sum(values) / n, scale=stats.sem(values))
        assert found == pytest.approx(expected, rel=1e-4)


def test_no_two_learners_need_have_the_same_question(tmp_path: Path, trained: list[str]) -> None:
    factors = {Lab(tmp_path / str(number)).factor.name for number in range(12)}
    assert len(factors) == 2  # by chance, one of 2,048 times not


def test_whole_numbers_may_be_typed() -> None:
    assert filled("3 seeds: {{difference}} {{interval}}", {"difference": "-0.1", "interval": "x"}) == "3 seeds: -0.1 x"
    assert verdict_in("**Verdict:** supports") == "supports"
    assert verdict_in("Verdict:\n") == ""


def test_a_fair_design_has_no_flaws(lab: Lab) -> None:
    lab.write()
    assert not [*flaws(read(lab.folder / "claim.toml", lab.task, lab.factor))]
