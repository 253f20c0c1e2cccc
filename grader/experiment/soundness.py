"""Whether an experiment is sound: for each factor, a careful hand-in is in a class, and what cheats is refused."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from commandline import files
from grader.course.attempts import DRAWN, record
from grader.course.findings import Finding, finding, of_page, of_refusal, solution
from grader.course.workspace import Workspace
from grader.experiment.claim import CLAIM, REPORT, folder_of
from grader.experiment.judging import Claimed
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
    claimed = Claimed.make(space, task)
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
    other = next(each for each in VERDICTS if each != verdict)
    yield of_refusal(f"{factor.name}, a typed result", lambda: refused(honest.replace("{{difference}}", "-0.5 nats")))
    yield of_refusal(f"{factor.name}, another verdict", lambda: refused(f"{template}\nVerdict: {other}\n"))
    for path in claimed.lab.folder.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        files.write(path, "".join(json.dumps({**row, "loss": row["loss"] - 0.5}) + "\n" for row in rows))
    yield of_refusal(f"{factor.name}, edited numbers", lambda: refused(honest))
