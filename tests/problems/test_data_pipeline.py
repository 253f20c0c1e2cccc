"""What a resume of problem 16 is told, and how its loaders are driven."""

from typing import Any

import grain
import numpy as np
import pytest

from grader.course import cases, catalog
from grader.problem import Difference

pytestmark = pytest.mark.fast

PROBLEM = catalog.find("16")
PROBES: Any = catalog.probes_module(PROBLEM.folder)
CASE = cases.draw(PROBLEM, "cases", 0)[0]
_B, STEPS, STOPS = PROBES._plan(CASE)


def resumed(first: Any, late: int = 0) -> dict[str, list[int]]:
    """What is read from batches (EPOCHS * STEPS, ...) of each shard and from resumes that are `late` by some
    batches."""
    shards = int(CASE.values["num_shards"])  # type: ignore[arg-type]
    arrays = {"saved:batches": np.stack([first + 1000 * shard for shard in range(shards)])}
    for i, stop in enumerate(STOPS):
        arrays[f"resumed.{i}"] = arrays["saved:batches"][i % shards][stop + late :]
    leaves = PROBES.read_resumed(arrays, None, CASE).arrays
    return {name: leaf.tolist() for name, leaf in leaves.items()}


def epochs(*, repeat: bool) -> Any:
    batches = np.arange(PROBES.EPOCHS * STEPS).reshape(-1, 1, 1)
    return batches % STEPS if repeat else batches


@pytest.mark.parametrize("repeat", [False, True])
def test_a_right_resume_is_right_whether_batches_repeat_or_not(repeat: bool):
    right = {"resumed.at_batch": list(STOPS), "resumed.continues": [1] * len(STOPS)}
    assert resumed(epochs(repeat=repeat)) == right


def test_a_late_resume_is_named_by_its_batch():
    late = resumed(epochs(repeat=False), late=1)
    assert late == {"resumed.at_batch": [stop + 1 for stop in STOPS], "resumed.continues": [0] * len(STOPS)}
    at = tuple(STOPS).index(STEPS)
    (check,) = (check for check in PROBLEM.checks if check.probe == "resuming")
    assert check.in_words
    wrong = Difference("resumed.at_batch", (at,), str(STEPS), str(STEPS + 1))
    assert check.in_words(CASE, wrong).endswith(
        f"state of batch {STEPS}, the next batch is batch {STEPS + 1}, expected batch {STEPS}"
    )


def test_a_loader_of_grain_reads_without_threads_unless_it_asks_for_a_few():
    """With Grain's defaults, a dozen loaders take most of the time limit."""

    def probe(*options: int) -> Any:
        found = grain.ReadOptions(*options)
        return found.num_threads, found.prefetch_buffer_size

    defaults = probe()
    assert PROBES._without_threads(probe)() == (0, 0)
    assert PROBES._without_threads(probe)(1, 3) == (1, 3)
    assert PROBES._without_threads(probe)(16, 500) == (PROBES.THREADS, PROBES.AHEAD)
    assert probe() == defaults != (0, 0)
