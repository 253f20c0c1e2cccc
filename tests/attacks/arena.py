"""The arena: the real judge, zygote and workers, surrounded by sockets and files that an attack may want to reach."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from grader.course import cases, catalog
from grader.isolation.sandbox import WITHOUT, ForkServer
from grader.judge import cache
from grader.judge.judge import Shared, grade
from grader.judge.options import GradeOptions
from grader.judge.reference import Reference
from grader.judge.submission import Submission
from grader.judge.verdict import Report
from tests.attacks import bombs, exits, floods, network, objects, patches, poison, reads
from tests.attacks.attack import GOOD, WRONG, Attack
from tests.conftest import ROOT

FAMILIES: Mapping[str, Mapping[str, Attack]] = {
    module.__name__.rpartition(".")[2]: module.ATTACKS
    for module in (exits, reads, patches, objects, floods, bombs, network, poison)
}
SEED = 987654321


@dataclass
class Arena:
    """A fork server and a reference, shared by all attacks, as in a batch.

    What an attack starts is told from the reference's worker by its fork server: that of the reference is another one,
    `apart`.
    """

    folder: Path
    apart: ForkServer

    def __post_init__(self) -> None:
        self.problem = catalog.find("07")
        self.fork_server = ForkServer()
        self.reference = Reference(self.problem, self.apart)
        self.cases = {seed: cases.draw_all(self.problem, seed) for seed in (0, SEED)}
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagrams.bind(str(self.folder / "datagrams"))
        self.path = self.folder / "socket"
        self.unix.bind(str(self.path))
        name = f"kata-{os.getpid()}"
        self.abstract.bind(f"\0{name}")
        for sock in self.sockets():
            sock.setblocking(False)
            if sock.type == socket.SOCK_STREAM:
                sock.listen()
        canary = self.folder / "canary"
        canary.write_text("hunter2")
        self.outside = self.folder / "outside"
        advice = catalog.misconceptions(self.problem)[0].says
        self.facts = {
            "ROOT": str(ROOT), "CANARY": str(canary), "CACHE": str(cache.folder()), "JUDGE": str(os.getpid()),
            "PORT": str(self.tcp.getsockname()[1]), "UDP": str(self.udp.getsockname()[1]), "UNIX": str(self.path),
            "ABSTRACT": name, "DATAGRAMS": str(self.folder / "datagrams"), "OUTSIDE": str(self.outside),
            "SECRET": advice[:40][::-1], "SEED": str(SEED),
            "SEEN": ", ".join(self._examples()),
        }  # fmt: skip
        self.honest_score = self.grade(WRONG).score

    def _examples(self) -> list[str]:
        """The public cases that a learner sees: their shapes and the right values."""
        check = self.problem.checks[0]
        return [
            f"{case.values['logits'].shape}: {float(self.reference.ask(check, case).result().leaves[0].values)!r}"
            for case in self.cases[0][check.cases]
        ]

    def sockets(self) -> list[socket.socket]:
        return [self.tcp, self.udp, self.unix, self.abstract, self.datagrams]

    def grade(self, text: str, *, without: str = "", timeout: float = 30.0) -> Report:
        """The report on a file, graded without some layers of isolation."""
        submission = Submission("attack.py", {self.problem.name: text})
        options = GradeOptions(SEED, timeout, shrink=False, grade_imports=False)
        os.environ[WITHOUT] = without
        try:
            return grade(self.problem, submission, self.fork_server, options, Shared(self.reference, self.cases[SEED]))
        finally:
            del os.environ[WITHOUT]

    def passes(self) -> bool:
        """Whether a correct submission passes now."""
        return self.grade(GOOD).verdict == "PASS"

    def reached(self) -> list[str]:
        """The sockets, files and processes outside its worker that an attack reached or left behind."""
        reached = []
        for name, sock in zip(("TCP", "UDP", "Unix", "abstract Unix", "datagram Unix"), self.sockets(), strict=True):
            try:
                sock.recv(10) if sock.type == socket.SOCK_DGRAM else sock.accept()[0].close()
            except BlockingIOError:
                continue
            reached.append(f"the judge's {name} socket")
        for path in (
            self.outside,
            ROOT / "grader" / "poison.py",
            Path("/tmp/poison_kata"),
            Path("/dev/shm/poison_kata"),
        ):
            if path.exists():
                path.unlink()
                reached.append(str(path))
        workers = psutil.Process(self.fork_server._process.pid).children(recursive=True)
        _, alive = psutil.wait_procs(workers, timeout=5)
        return reached + [f"process {process.pid}" for process in alive]

    def close(self) -> None:
        self.fork_server.close()
        self.reference.close()
        for sock in self.sockets():
            sock.close()


def outcome(arena: Arena, attack: Attack, without: str = "") -> list[str]:
    """The ways in which an attack ended wrongly; empty if it was stopped and reported honestly."""
    report = arena.grade(attack.text(arena.facts), without=without, timeout=attack.timeout)
    wrong = []
    if "RAN" not in report.stdout:
        wrong.append("it did not run")
    if "GOT" in report.stdout:
        wrong.append(f"it got {report.stdout.partition('GOT')[2].strip()}")
    if report.verdict not in attack.verdicts:
        wrong.append(f"the verdict was {report.verdict}")
    if report.score > arena.honest_score:
        wrong.append(f"it scored {report.score} points")
    messages = [result.message for result in report.checks]
    if attack.message and not any(attack.message in message for message in messages):
        wrong.append(f"the report says something else: {messages[0]}")
    return wrong + [f"it reached {target}" for target in arena.reached()]
