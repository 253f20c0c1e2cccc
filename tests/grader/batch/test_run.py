"""Grading in several processes and on a cluster."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.batch import run
from grader.batch.faults import Faults
from grader.batch.tasks import Graded, Task
from grader.isolation.level import Level
from grader.judge.verdict import Verdict
from grader.report.json_report import PublicReport
from tests.conftest import ROOT, Grade, boot
from tests.grader.batch.conftest import GOOD, NAME, stored
from tests.grader.report.reports import report_of


@pytest.mark.thorough
def test_a_cluster_gives_the_same_table_even_if_a_worker_is_killed(
    grade: Grade, school_class: Path, seed: Path, tmp_path: Path
):
    distributed = pytest.importorskip("distributed")
    for number in range(8):
        (school_class / f"more {number}").mkdir()
        (school_class / f"more {number}" / f"{NAME}.py").write_text(f"NUMBER = {number}\n{GOOD}")
    batch_command = ("batch", school_class, "--seed-file", seed, "--timeout", 3)
    assert grade(*batch_command, "--out", tmp_path / "here").code == 0
    dask = "import sys; sys.path.insert(0, {!r}); from distributed.cli.{} import main; main()"
    log = (tmp_path / "cluster.log").open("w")

    def start(command: str, *arguments: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-W", "ignore", "-c", dask.format(str(ROOT), command), *arguments]
        return subprocess.Popen(program, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)

    scheduler = start(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", "s.json"
    )
    file = tmp_path / "s.json"
    while not file.exists():
        time.sleep(0.1)
    address = json.loads(file.read_text())["address"]
    arguments = (address, "--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    workers = [start("dask_worker", *arguments) for _ in range(2)]
    try:
        with distributed.Client(address) as client:
            client.wait_for_workers(2, timeout=60)
        batch = subprocess.Popen(
            [sys.executable, "-c", boot(), *map(str, batch_command), "--out", "there", "--scheduler", address],
            cwd=tmp_path,
        )
        while stored(tmp_path / "there") < 6:
            assert batch.poll() is None
            time.sleep(0.05)
        workers[0].kill()
        assert batch.wait(timeout=120) == 0
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()
        log.close()
    assert (tmp_path / "there" / "results.csv").read_text() == (tmp_path / "here" / "results.csv").read_text()


@pytest.mark.fast
@pytest.mark.parametrize(("jobs", "last"), [(9, [("slow", 1)]), (1, [])])
def test_what_times_out_beside_others_is_graded_again_alone(monkeypatch: pytest.MonkeyPatch, jobs: int, last: list):
    graded = []

    def grade(queue, running, jobs, fork_server, faults):
        while queue:
            task = queue.pop()
            graded.append((task.learner, jobs))
            verdict = Verdict.TIMEOUT if task.learner == "slow" else Verdict.PASS
            yield task, Graded(task.learner, NAME, PublicReport.of(report_of(*[verdict] * 6)))

    monkeypatch.setattr(run, "_grade", grade)
    to_grade = [Task(name, NAME, "1", "x.py", {}, 0, None, Level.STRICT, "") for name in ("slow", "ada", "bob")]
    results = [task.learner for task, _ in run.here(to_grade, jobs, Faults(Path("none")))]
    assert sorted(results) == ["ada", "bob", "slow"]
    assert graded == [*((name, jobs) for name in ("slow", "ada", "bob")), *last]
