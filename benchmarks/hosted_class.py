"""A class on a hub: a learner's server in memory and time, 200 learners who save, and 20 who hand in at once.

    python benchmarks/hosted_class.py [SERVERS] [--smoke] [--write]

The servers start as from a hub, beside a small Hub of the tests. They get the saves of 200 learners, one in two
minutes from each: while the fork servers run, and after a pause in which they have ended. The computing time is that of
the whole machine. Then a class hands in at the same second, and again while the service is killed and restarted.
"""

import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from learner import edits
from timing import ROOT, Run

sys.path.insert(0, str(ROOT))

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.hand_in import NotArrivedError, Outbox, Service
from hosting.class_folder import ClassFolder
from hosting.inbox import Inbox
from tests.hosting.conftest import PREFIX, RIGHT, free_port
from tests.hosting.learner_server import STUDIO, Browser, Server
from tests.hosting.test_killed import SERVICE

LEARNERS, INTERVAL, HAND_INS = 200, 120.0, 20  # who save, seconds between two saves of one, and who hand in
SAVED, HANDED_IN = catalog.find("04"), catalog.find("01")
LONG, SHORT = "60", "0.02"  # minutes until a fork server ends


class Learner:
    """A learner's server that shows the map, and the browser that looks at it."""

    def __init__(self, folder: Path, idle: str) -> None:
        folder.mkdir()
        self.server = Server(folder, GPT_KATA_IDLE=idle, GRADE_CACHE=str(folder / "cache"))
        self.browser = Browser(self.server, "ada")
        self.texts = (text for both in edits(SAVED) for text in both)
        self.page = self.browser.sign_in(f"{STUDIO}/")
        self.browser.ask(self.page)

    def open(self) -> None:
        """Opens the problem and saves it once."""
        self.page = self.browser.open(f"{STUDIO}/problems/{SAVED.label}")
        self.browser.ask(self.page)
        self.save()

    def save(self) -> float:
        """Saves a text that has never been graded, right or wrong in turn. Returns the seconds to its verdict."""
        base = json.loads(self.browser.ask(f"{self.page}/file").text)["digest"]
        cookies = "; ".join(f"{name}={value}" for name, value in self.browser.cookies.items())
        with self.server.ask(f"{self.page}/events", Cookie=cookies) as events:
            start, origin = time.monotonic(), f"http://127.0.0.1:{self.server.port}"
            self.browser.ask(f"{self.page}/file", "PUT", {"text": next(self.texts), "base": base}, Origin=origin)
            for event in (b"event: grading\n", b"event: verdict\n"):
                next(line for line in events if line == event)
            return time.monotonic() - start

    def memory(self) -> float:
        """Returns the MiB of all its processes. Pages that several processes share are divided among these."""
        total = 0
        for process in (self.server.process, *self.server.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total / (1 << 20)


@contextlib.contextmanager
def servers(number: int, idle: str) -> Iterator[list[Learner]]:
    """Learners whose servers show the map."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as at_the_end:
        found = list[Learner]()
        for each in range(number):
            found.append(Learner(Path(folder, str(each)), idle))
            at_the_end.callback(found[-1].server.stop)
        yield found


def memory(run: Run, learners: Sequence[Learner]) -> None:
    """Figures for the memory of a server, where all do the same."""
    run.figure("memory with the map", [each.memory() for each in learners], "MiB", at_most=80)
    for learner in learners:
        learner.open()
    run.figure("memory after a grading", [each.memory() for each in learners], "MiB")
    most = 0.0
    with ThreadPoolExecutor(len(learners)) as pool:
        saving = [pool.submit(learner.save) for learner in learners]
        while not all(each.done() for each in saving):
            most = max(most, learners[0].memory())
    run.figure("memory while grading", most, "MiB", at_most=450)


def saves(run: Run, name: str, learners: Sequence[Learner], each: int) -> None:
    """Has the learners save in turn, at the rate of the class. Figures for waits and computing time."""
    between, start, before = INTERVAL / LEARNERS, time.monotonic(), sum(psutil.cpu_times()[:3])

    def save(place: int) -> list[float]:
        waits = []
        for number in range(each):
            time.sleep(max(start + (number * len(learners) + place) * between - time.monotonic(), 0))
            waits.append(learners[place].save())
        return waits

    with ThreadPoolExecutor(len(learners)) as pool:
        waits = [wait for found in pool.map(save, range(len(learners))) for wait in found]
    computed = (sum(psutil.cpu_times()[:3]) - before) / len(waits)  # as user, nice and system
    run.figure(f"saves a second, {name}", len(waits) / (time.monotonic() - start))
    run.figure(f"save to verdict, {name}", waits, "s")
    run.figure(f"save to verdict, {name}, 95%", sorted(waits)[int(len(waits) * 0.95)], "s")
    run.figure(f"computing time of a save, {name}", computed, "s")
    run.figure(f"cores for {LEARNERS} learners, {name}", computed / between)


def hand_ins(run: Run, name: str, *, kills: int) -> None:
    """Has a class hand in at the same second. Figures for when all is received and graded, and for what is wrong."""
    with tempfile.TemporaryDirectory() as home:
        of, port = ClassFolder(Path(home, "class")), free_port()
        of.folder.mkdir()
        command = [sys.executable, "-P", "-c", SERVICE, str(of.folder), str(port), PREFIX]
        env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": home}
        running, address = [psutil.Popen(command, env=env)], f"http://127.0.0.1:{port}{PREFIX}"
        learners = [Service(address, f"learner{number}") for number in range(HAND_INS)]
        while attempts(learners[0]) is None:
            time.sleep(0.05)
        start = time.monotonic()

        def kill() -> None:
            for each in range(kills):
                while len(list(of.hand_ins.glob("learner*"))) < (each + 1) * HAND_INS // (kills + 1):
                    time.sleep(0.001)
                running[-1].kill()
                running[-1].wait()
                running.append(psutil.Popen(command, env=env))

        def hand_in(learner: Service) -> float:
            space = Workspace(Path(home, learner.token))
            space.folder.mkdir()
            space.file(HANDED_IN).write_text(f"{RIGHT}\nwhose = {learner.token!r}\n")
            outbox = Outbox(space, learner)
            outbox.put(HANDED_IN)
            while outbox.waiting():
                with contextlib.suppress(NotArrivedError):
                    list(outbox.send())
            return time.monotonic() - start

        with ThreadPoolExecutor(HAND_INS + 1) as pool:
            killing = pool.submit(kill)
            run.figure(f"{HAND_INS} hand in, {name}: received", list(pool.map(hand_in, learners)), "s")
            killing.result()
        while not all(found and found[0]["result"] for found in map(attempts, learners)):
            time.sleep(0.2)
        run.figure(f"{HAND_INS} hand in, {name}: all graded", time.monotonic() - start, "s")
        running[-1].terminate()
        running[-1].wait()
        received = Counter(one.learner for one in Inbox(of.hand_ins).all())
        with of.stored() as stored:
            graded = Counter({each.token: len(stored.attempts(each.token, HANDED_IN.name)) for each in learners})
        for what, found in (("received", received), ("graded", graded)):
            wrong = sum(found[each.token] != 1 for each in learners)
            run.figure(f"{HAND_INS} hand in, {name}: not {what} once", wrong, at_most=0)


def attempts(learner: Service) -> list[dict[str, Any]] | None:
    """The learner's attempts; None if the service does not answer."""
    with contextlib.suppress(NotArrivedError):
        return learner.attempts(HANDED_IN)


def main() -> None:
    run = Run()
    number, each, start = 2 if run.smoke else run.rounds(12), 2 if run.smoke else 6, time.monotonic()
    with servers(1, LONG) as learners:
        learners[0].open()
        run.figure("from the start of a server to the first verdict", time.monotonic() - start, "s")
    with servers(number, LONG) as learners:
        memory(run, learners)
        saves(run, "while the fork server runs", learners, each)
    with servers(number, SHORT) as learners:
        for learner in learners:
            learner.open()
        time.sleep(5)
        run.figure("memory after a pause", [learner.memory() for learner in learners], "MiB", at_most=150)
        saves(run, "after a pause", learners, each)
    hand_ins(run, "service alive", kills=0)
    hand_ins(run, "service killed twice", kills=2)
    run.end()


if __name__ == "__main__":
    main()
