"""The service is killed again and again while a class hands in: no attempt is lost, and none is received twice."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from grader.batch.hand_ins import HandIn
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.hand_in import NotArrivedError, Outbox, Service
from hosting.inbox import Inbox
from tests.conftest import ROOT
from tests.hosting.conftest import PREFIX, Hub

LEARNERS, ATTEMPTS, KILLS = 20, 3, 4
SERVICE = """
import sys, uvicorn
from pathlib import Path
from hosting import app
from hosting.class_folder import ClassFolder
from hosting.sessions import User

async def identify(token):
    return User(token)

service = app.application(ClassFolder(Path(sys.argv[1])), identify, None, sys.argv[3], sys.argv[4:])
uvicorn.run(service, port=int(sys.argv[2]), log_level="critical", ws="none")
"""


@pytest.mark.thorough
def test_killed_while_a_class_hands_in(tmp_path: Path):
    hub = Hub(tmp_path / "class")  # for its folder and a port
    hub.of.folder.mkdir()
    command = [sys.executable, "-c", SERVICE, str(hub.of.folder), str(hub.port), PREFIX, "--jobs", "none"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)]
    over = threading.Event()

    def kill() -> None:
        for _ in range(KILLS):
            before = _received(hub)
            while _received(hub) < before + 8 and not over.is_set():
                time.sleep(0.002)
            running[-1].kill()
            running[-1].wait()
            running.append(subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL))

    def learn(name: str) -> None:
        space = Workspace(tmp_path / "homes" / name / "attempts")
        space.folder.mkdir(parents=True)
        problem = catalog.find("01")
        outbox = Outbox(space, Service(f"http://127.0.0.1:{hub.port}{PREFIX}", name))
        for number in range(ATTEMPTS):
            space.file(problem).write_text(f"x = '{name} {number}'")
            outbox.put(problem)
            while outbox.waiting():
                try:
                    assert all(sent.is_received for sent in outbox.send())
                except NotArrivedError:
                    time.sleep(0.05)

    learners = [threading.Thread(target=learn, args=(f"learner{number}",)) for number in range(LEARNERS)]
    killer = threading.Thread(target=kill)
    for thread in (*learners, killer):
        thread.start()
    for thread in learners:
        thread.join()
    over.set()
    killer.join()
    running[-1].kill()
    running[-1].wait()
    assert len(running) == KILLS + 1
    received = Inbox(hub.of.hand_ins).all()
    texts = Counter(_text(hub, one) for one in received)
    assert texts == Counter(f"x = 'learner{n} {k}'" for n in range(LEARNERS) for k in range(ATTEMPTS))
    for number in range(LEARNERS):
        own = [_text(hub, one) for one in received if one.learner == f"learner{number}"]
        assert own == sorted(own), "in the order in which they were handed in"


def _received(hub: Hub) -> int:
    """The number of attempts on the disk, also while folders come and go."""
    return sum(files == ["p01_token_embedding.py"] for _, _, files in os.walk(hub.of.hand_ins))


def _text(hub: Hub, one: HandIn) -> str:
    return (hub.of.hand_ins / one.folder / f"{one.problem}.py").read_text()
