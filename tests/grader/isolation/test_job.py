"""The message that starts a worker survives its JSON form."""

import json
from pathlib import Path

import pytest

from grader.isolation.job import Job, Launch, Limits

pytestmark = pytest.mark.fast

SMALLEST = Launch(Job(Path("/course/problems/p01_token_embedding")), Path("/scratch"), judge=7)
LARGEST = Launch(
    Job(Path("/a"), 8, Limits(memory=1 << 30), (Path("/course/solutions"),)),
    Path("/scratch"),
    7,
    frozenset({"seccomp", "user"}),
    (Path("/sys/fs/cgroup/a/cgroup.procs"),),
    ("memory", "pids"),
    5,
)


@pytest.mark.parametrize("launch", [SMALLEST, LARGEST])
def test_a_launch_survives_a_round_trip(launch: Launch):
    assert Launch.decode(json.loads(json.dumps(launch.encode()))) == launch


def test_other_fields_are_refused():
    for damaged in ({}, {**SMALLEST.encode(), "job": {"devices": 8}}):
        with pytest.raises(KeyError):
            Launch.decode(damaged)
