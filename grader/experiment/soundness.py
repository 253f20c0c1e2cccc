"""Whether an experiment is sound: for each factor, a careful hand-in is in a class, and what cheats is refused."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.experiment.arms import Lab
from grader.experiment.claim import CLAIM, DRAWN, FEWEST_STEPS, REPORT, Arm, flaws
from grader.experiment.judging import Bench, Score
from grader.experiment.report_file import VERDICTS, verdict_of
from grader.task import Experiment

Finding = tuple[str, str]  # what was found, and a complaint about it; empty if there is none


def verify(task: Experiment) -> Iterator[Finding]:
    """Yields what was found, in order, for the page and each factor. Trains for minutes. Raises CourseError."""
    page = catalog.page_text(task)
    missing = next((word for word in (CLAIM, REPORT, *VERDICTS) if word not in page), "")
    yield "the page explains the claim and the report", missing and f"the page does not show {missing}"
    for factor in task.factors:
        with tempfile.TemporaryDirectory() as scratch:
            space = Workspace(Path(scratch))
            space.record(DRAWN, task.label, factor=factor.name)
            yield from _of_factor(Bench(space, task), task.home / "solutions" / task.label)


def _of_factor(bench: Bench, shipped: Path) -> Iterator[Finding]:
    setting, folder = bench.factor.name, bench.folder
    path = shipped / f"{setting}.toml"
    if not path.is_file():
        yield "", f"there is no {path}"
        return
    folder.mkdir(parents=True)
    shutil.copyfile(path, folder / CLAIM)
    report = (bench.task.folder / REPORT).read_text(encoding="utf-8")
    lab = Lab.within(folder, bench.task, bench.factor, bench.claim())
    lab.run_all()
    verdict = verdict_of(lab.claim, bench.found(lab))
    honest = f"{report}\nVerdict: {verdict}\n".replace("Verdict:\n", "")

    def judged(text: str, of: Lab = lab) -> Score:
        files.write(folder / REPORT, text)
        try:
            of.run_all()
            return bench.judge(of, 0)
        except UsageError as error:
            return Score(refused=str(error))

    score = judged(honest)
    reached = bench.task.standard(score.value) if score.value is not None else ""
    told = f"{setting}: {verdict}, {score.value} {bench.task.unit}, {reached or 'in no class'} {score.refused}".strip()
    yield told, "" if reached else told
    careless = Score(score.width, score.miss, tuple(flaws(replace(lab.claim, seeds=1, new=_careless(lab.claim.new)))))
    told = f"{setting}, one seed and unequal arms: {careless.value} {bench.task.unit}"
    yield told, bench.task.standard(careless.value or 0) and f"{told}, in a class"
    cheats: dict[str, Callable[[], Score]] = {
        "a typed result": lambda: judged(honest.replace("{{difference}}", "-0.5 nats")),
        "another verdict": lambda: judged(
            honest.replace(f"Verdict: {verdict}", f"Verdict: {next(each for each in VERDICTS if each != verdict)}")
        ),
        "runs of before the claim": lambda: judged(honest, _older(lab)),
        "runs that learn nothing": lambda: judged(honest, _idle(lab)),
        "edited numbers": lambda: _edited(lab, lambda: judged(honest)),
    }
    for name, cheat in cheats.items():
        refused = cheat().refused
        yield f"{setting}, {name}: {refused or 'it gets a score'}", "" if refused else f"{name} gets a score"


def _careless(arm: Arm) -> Arm:
    """Returns an arm with less work than the other, and a second difference."""
    return replace(arm, steps=FEWEST_STEPS, settings=(*arm.settings, "beta2=0.9"))


def _older(lab: Lab) -> Lab:
    """Returns another claim with the runs of this one in its folder."""
    other = Lab.within(
        lab.folder.parent.parent, lab.task, lab.factor, replace(lab.claim, matters=lab.claim.matters / 2)
    )
    shutil.copytree(lab.folder, other.folder)
    return other


def _idle(lab: Lab) -> Lab:
    """Returns a claim whose rates are so low that no two arms can differ."""
    baseline, new = (replace(arm, rates=(1e-6,), steps=FEWEST_STEPS) for arm in lab.claim.arms.values())
    claim = replace(lab.claim, seeds=1, baseline=baseline, new=new)
    return Lab.within(lab.folder.parent.parent, lab.task, lab.factor, claim)


def _edited(lab: Lab, judged: Callable[[], Score]) -> Score:
    """Returns the score of runs whose metrics somebody changed."""
    for path in lab.folder.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        files.write(path, "".join(json.dumps({**row, "loss": row["loss"] - 0.5}) + "\n" for row in rows))
    return judged()
