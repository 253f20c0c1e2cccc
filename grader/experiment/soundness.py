"""Whether an experiment is sound: for each factor, a careful hand-in is in a class, and what cheats is refused."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from commandline import files
from grader.course.attempts import DRAWN, record
from grader.course.findings import Finding, finding, of_page, of_refusal, solution
from grader.course.workspace import Workspace
from grader.experiment.arms import Lab
from grader.experiment.claim import CLAIM, FEWEST_STEPS, REPORT, flaws, folder_of
from grader.experiment.judging import FLAW, Claimed, lab_of
from grader.experiment.report_file import VERDICTS, verdict_of
from grader.isolation.sandbox import Workers
from grader.task import Experiment, Factor


def verify(task: Experiment, _: Workers) -> Iterator[Finding]:
    """Yields what was found, in order, for the page and each factor. Trains for minutes. Raises CourseError and
    UsageError."""
    yield of_page(task, "the claim, the report and the verdicts", (CLAIM, REPORT, *VERDICTS))
    for factor in task.factors:
        with tempfile.TemporaryDirectory() as scratch:
            yield from _of_factor(Workspace(Path(scratch)), task, factor)


def _of_factor(space: Workspace, task: Experiment, factor: Factor) -> Iterator[Finding]:
    record(space, DRAWN, task, factor=factor.name)
    folder = folder_of(space, task)
    folder.mkdir(parents=True)
    shutil.copyfile(solution(task, f"{factor.name}.toml"), folder / CLAIM)
    claimed = _claimed(space, task)
    claimed.lab.run_all()
    verdict = verdict_of(claimed.lab.claim, claimed.found())
    template = (task.folder / REPORT).read_text(encoding="utf-8").replace("Verdict:\n", "")
    honest = f"{template}\nVerdict: {verdict}\n"

    def refused(text: str) -> str:
        files.write(folder / REPORT, text)
        return Claimed.find(space, task).judge(0).refused

    files.write(folder / REPORT, honest)
    score = Claimed.find(space, task).judge(0)
    reached = score.value is not None and task.standard(score.value)
    told = f"{factor.name}: {verdict}, {score.value} {task.unit}, {reached or 'in no class'} {score.refused}"
    yield finding(told.strip(), sound=bool(reached))
    yield _of_carelessness(claimed.lab, score.value or 0)
    other = next(each for each in VERDICTS if each != verdict)
    yield of_refusal(f"{factor.name}, a typed result", lambda: refused(honest.replace("{{difference}}", "-0.5 nats")))
    yield of_refusal(f"{factor.name}, another verdict", lambda: refused(f"{template}\nVerdict: {other}\n"))
    files.write(folder / REPORT, honest)
    yield of_refusal(f"{factor.name}, runs of before the claim", lambda: _with_older_runs(claimed))
    yield of_refusal(f"{factor.name}, runs that learn nothing", lambda: _with_idle_runs(claimed))
    for path in claimed.lab.folder.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        files.write(path, "".join(json.dumps({**row, "loss": row["loss"] - 0.5}) + "\n" for row in rows))
    yield of_refusal(f"{factor.name}, edited numbers", lambda: refused(honest))


def _claimed(space: Workspace, task: Experiment) -> Claimed:
    """Makes the claim in the file without a salt: with the same seeds each time that a task is verified."""
    return Claimed.begin(space, task, claim=lab_of(space, task).claim.digest)


def _of_carelessness(lab: Lab, points: int) -> Finding:
    """Returns whether one seed, less work in one arm and a second difference are in no class."""
    new = replace(lab.claim.new, steps=FEWEST_STEPS, settings=(*lab.claim.new.settings, "beta2=0.9"))
    points += FLAW * len(list(flaws(replace(lab.claim, seeds=1, new=new))))
    reached = lab.task.standard(points)
    told = f"{lab.factor.name}, one seed and unequal arms: {points} {lab.task.unit}, {reached or 'in no class'}"
    return finding(told, sound=not reached)


def _with_older_runs(claimed: Claimed) -> str:
    """Judges another claim with the runs of this one in its folder."""
    return _judged(claimed, claimed.lab.folder, {r"matters = .*": "matters = 0.001"})


def _with_idle_runs(claimed: Claimed) -> str:
    """Judges a claim whose rates are so low that no two arms can differ."""
    edits = {r"rates = .*": "rates = [1e-6]", r"steps = .*": f"steps = {FEWEST_STEPS}", r"seeds = .*": "seeds = 1"}
    return _judged(claimed, None, edits)


def _judged(claimed: Claimed, runs: Path | None, edits: Mapping[str, str]) -> str:
    """Makes a claim with these edits, with the runs of a folder as its own, and judges it. The file is then as
    before."""
    path = folder_of(claimed.space, claimed.task) / CLAIM
    before = text = path.read_text(encoding="utf-8")
    for old, new in edits.items():
        text = re.sub(old, new, text)
    try:
        files.write(path, text)
        other = _claimed(claimed.space, claimed.task)
        if runs:
            shutil.copytree(runs, other.lab.folder)
        other.lab.run_all()
        return other.judge(0).refused
    finally:
        files.write(path, before)
