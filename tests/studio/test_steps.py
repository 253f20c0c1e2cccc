"""The pages of an experiment and of a run that went wrong, in a real browser: what there is so far, and a diagnosis
that is filed."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from grader.course import attempts, tasks
from grader.course.workspace import Workspace
from grader.diagnosis.case import Case
from grader.experiment.arms import DONE
from grader.experiment.claim import factor_of, folder_of
from grader.experiment.judging import OPENED, Claimed
from grader.isolation import child
from grader.task import Diagnosis, Experiment
from tests.grader.tasks.test_killed import CLAIM, REPORT
from tests.studio.conftest import Server, axe


def is_whole(page: Page) -> bool:
    """Whether the page is accessible, and as wide as a phone and as a screen."""
    found = axe(page)
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        found += [f"wide at {width}"] * (page.evaluate("document.documentElement.scrollWidth") != width)
    assert found == []
    return True


def test_an_experiment_from_the_claim_to_the_verdict(page: Page, studio: Server):
    task, space = tasks.find("qk_norm_rate"), Workspace(studio.workspace)
    assert isinstance(task, Experiment)
    page.goto(f"{studio.base}/tasks/qk_norm_rate")
    page.get_by_role("link", name="Look at your claim and its runs").click()
    expect(page.get_by_text("There is no ")).to_be_visible()  # claim
    factor, folder = factor_of(space, task), folder_of(space, task)
    folder.mkdir(parents=True)
    claim = CLAIM.format(baseline=factor.baseline, new=factor.others[0])
    (folder / "claim.toml").write_text(claim)
    (folder / "report.md").write_text(REPORT)
    claimed = Claimed.make(space, task)
    page.reload()
    expect(page.get_by_text("0 of 2 are done.")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^baseline-0.01-0 missing"))).to_be_visible()
    for place, planned in enumerate([*claimed.lab.tried(), *claimed.lab.finals()]):
        write_run(claimed, planned, 3.0 - 0.1 * place)
    (claimed.lab.folder / "new-0.01-1" / DONE).unlink()
    page.reload()
    expect(page.get_by_text("3 of 4 are done.")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^new-0.01-1 running"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Training loss of the arms. baseline, .*, 2 runs"))).to_be_visible()
    claimed.note(OPENED, losses=json.dumps({"baseline": [3.0, 3.1], "new": [2.9, 3.2]}))
    claimed.end(400)
    page.reload()
    expect(page.get_by_text("undecided")).to_be_visible()
    expect(page.get_by_text("Your last score is 400 points, silver.")).to_be_visible()
    assert is_whole(page)


def write_run(claimed: Claimed, planned, loss: float) -> None:
    folder = claimed.lab.folder / planned.name
    folder.mkdir(parents=True, exist_ok=True)
    settings = claimed.lab.settings(planned, claimed.lab.seed(planned.number))
    (folder / "config.json").write_text(json.dumps(settings))
    rows = [{"step": step, "loss": loss + 4 / step, "validation_loss": None} for step in range(1, 11)]
    rows[-1]["validation_loss"] = loss
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / DONE).touch()


def test_a_run_that_went_wrong_from_its_charts_to_its_cause(
    page: Page, studio: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child, "run", train)
    task, space = tasks.find("sick_restart"), Workspace(studio.workspace)
    assert isinstance(task, Diagnosis)
    page.goto(f"{studio.base}/tasks/sick_restart")
    page.get_by_role("link", name="Look at a run that went wrong").click()
    expect(page.get_by_role("button", name="Make a run")).to_be_enabled()
    case = Case.begin(space, task, seed=3)
    case.make()
    wrong, quantity = next(each for each in task.causes if each != case.cause), "block0.attention.gradient"
    page.reload()
    expect(page.get_by_role("img", name=re.compile("^Loss. loss: 7 at step 1"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Norm of the gradient, by layer. "))).to_be_visible()
    page.get_by_text("sample_50.txt").click()
    expect(page.get_by_label("sample_50.txt")).to_have_text("Once upon a time there was")
    assert is_whole(page)

    page.get_by_label("Cause").select_option(wrong.name)
    page.get_by_label("Quantity").select_option(quantity)
    page.get_by_label("80% interval from").fill("5")
    page.get_by_label("to", exact=True).fill("6")
    page.get_by_role("button", name="File it").click()
    expect(page.get_by_text(f"The cause is another one than {wrong.name}.")).to_be_visible()
    (filed,) = Case.under_way(space, task).filed
    assert (filed.cause, filed.quantity, filed.interval) == (wrong.name, quantity, (5, 6))
    page.reload()
    expect(page.get_by_label("Quantity")).to_have_value(quantity)
    page.get_by_role("button", name="Give up").click()
    expect(page.get_by_text(f"The cause is {case.cause.name}: ")).to_be_visible()
    expect(page.get_by_role("button", name="Make a run")).to_be_visible()
    page.reload()
    expect(page.get_by_text(f"Run 1: {case.cause.name}, given up")).to_be_visible()
    assert is_whole(page)
    assert [each.kind for each in space.entries() if each.kind == attempts.ENDED]


def train(module: str, cause: str, seed: str, folder: str, stdin: str) -> str:
    """Writes what a training writes."""
    run = Path(folder)
    parts = ("embed", "block0.attention", "block0.feed_forward", "block1.attention", "block1.feed_forward")
    names = [f"{part}.{kind}" for kind in ("weight", "gradient", "update") for part in parts]
    names += ["block0.attention.logit", "block1.attention.logit"]
    for step in range(1, 151):
        line = {"step": step, "loss": 6 / step + 1, "gradient_norm": 1 + step / 150}
        line |= {"validation_loss": 6 / step + 1.1} if step % 10 == 0 else {}
        append(run / "metrics.jsonl", line)
        append(run / "norms.jsonl", {"step": step, **{name: 1 + place / 3 for place, name in enumerate(names)}})
    for step in (50, 100, 150):
        (run / f"sample_{step}.txt").write_text("Once upon a time there was\n")
        (run / f"step_{step}.npz").write_bytes(b"")
    (run / "settings.json").write_text('{"steps": 150}\n')
    return json.dumps({"begins": 80})


def append(path: Path, line: dict[str, float]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
