"""Nothing that a batch compiles for its own reference reaches a submission."""

from collections.abc import Iterator

import pytest

from grader.batch import tasks
from grader.batch.tasks import BatchGrader, Task
from grader.course import catalog
from grader.isolation.level import Level
from grader.isolation.sandbox import WITHOUT
from grader.judge import cache
from tests.attacks.levels import PARTIAL
from tests.attacks.thefts import ATTACKS

SEED = 987654321


@pytest.fixture(scope="module")
def batch() -> Iterator[BatchGrader]:
    batch = BatchGrader()
    yield batch
    batch.close()


@pytest.mark.parametrize("without", ["", *PARTIAL])
@pytest.mark.parametrize("name", ATTACKS)
def test_a_theft_is_stopped(batch: BatchGrader, name: str, without: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(WITHOUT, without)
    attack, problem = ATTACKS[name], catalog.find("02")
    text = attack.text({"CACHE": str(cache.folder())})
    version = tasks.definition(problem.name)
    task = Task(
        "a thief", problem.name, "", "attack.py", {problem.name: text}, SEED, attack.timeout, Level.WEAK, version
    )
    report = batch.grade(task).report
    assert "RAN" in report.stdout
    assert "GOT" not in report.stdout
    assert (report.verdict in attack.verdicts, report.score) == (True, 0)
