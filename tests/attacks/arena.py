"""Where attacks run: the real judge, zygote and worker, with things around them that an attack may want."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from grader.course import cases, catalog
from grader.isolation.sandbox import WITHOUT, Zygote
from grader.judge import cache, judge
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
    """One zygote and one reference, used for all attacks, as in a batch."""

    folder: Path
    problem: object = field(default_factory=lambda: catalog.find("07"))

    def __post_init__(self) -> None:
        self.zygote = Zygote()
        self.reference = Reference(self.problem)
        self.drawn = {seed: cases.draw_all(self.problem, seed) for seed in (0, SEED)}
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.path = self.folder / "socket"
        self.unix.bind(str(self.path))
        name = f"kata-{os.getpid()}"
        self.abstract.bind(f"\0{name}")
        for sock in self.servers():
            sock.setblocking(False)
            if sock is not self.udp:
                sock.listen()
        canary = self.folder / "canary"
        canary.write_text("hunter2")
        self.outside = self.folder / "outside"
        idea = catalog.misconceptions(self.problem)[0].says
        self.facts = {
            "ROOT": str(ROOT), "CANARY": str(canary), "CACHE": str(cache.folder()), "JUDGE": str(os.getpid()),
            "PORT": str(self.tcp.getsockname()[1]), "UDP": str(self.udp.getsockname()[1]), "UNIX": str(self.path),
            "ABSTRACT": name, "OUTSIDE": str(self.outside), "SECRET": idea[:40][::-1], "SEED": str(SEED),
            "SEEN": ", ".join(self._examples()),
        }  # fmt: skip
        self.honest = self.grade(WRONG).score

    def _examples(self) -> list[str]:
        """What a learner sees: the shapes and the right values of the public cases."""
        check = self.problem.checks[0]
        return [
            f"{case.values['logits'].shape}: {float(self.reference.ask(check, case).result().leaves[0].values)!r}"
            for case in self.drawn[0][check.cases]
        ]

    def servers(self) -> list[socket.socket]:
        return [self.tcp, self.udp, self.unix, self.abstract]

    def grade(self, text: str, *, without: str = "", timeout: float = 30.0) -> Report:
        """The report on a file, graded without some layers."""
        os.environ[WITHOUT] = without
        try:
            return judge.grade(
                self.problem, Submission("attack.py", {self.problem.name: text}), self.zygote, reference=self.reference,
                seed=SEED, timeout=timeout, drawn=self.drawn[SEED], shrinks=False, look_at_imports=False,
            )  # fmt: skip
        finally:
            del os.environ[WITHOUT]

    def passes(self) -> bool:
        """Whether a right submission, graded now, passes."""
        return self.grade(GOOD).verdict == "PASS"

    def reached(self) -> list[str]:
        """What an attack got at outside of its process."""
        found = []
        for name, sock in zip(("tcp", "udp", "unix", "abstract"), self.servers(), strict=True):
            try:
                sock.recv(10) if sock is self.udp else sock.accept()[0].close()
            except BlockingIOError:
                continue
            found.append(f"the judge's {name} socket")
        for path in (self.outside, ROOT / "grader" / "poison.py", Path("/tmp/poison_kata")):
            if path.exists():
                path.unlink()
                found.append(str(path))
        _, alive = psutil.wait_procs(psutil.Process(self.zygote._process.pid).children(recursive=True), timeout=5)
        return found + [f"process {process.pid}" for process in alive]

    def close(self) -> None:
        self.zygote.close()
        self.reference.close()
        for sock in self.servers():
            sock.close()


def outcome(arena: Arena, attack: Attack, without: str = "") -> list[str]:
    """What was wrong with how an attack ended; nothing if it was stopped and told honestly."""
    report = arena.grade(attack.text(arena.facts), without=without, timeout=attack.timeout)
    wrong = []
    if "RAN" not in report.stdout:
        wrong.append("it did not run")
    if "GOT" in report.stdout:
        wrong.append(f"it got {report.stdout.partition('GOT')[2].strip()}")
    if report.verdict not in attack.verdicts:
        wrong.append(f"the verdict was {report.verdict}")
    if report.score > arena.honest:
        wrong.append(f"it got {report.score} points")
    messages = [result.message for result in report.checks]
    if attack.says and not any(attack.says in message for message in messages):
        wrong.append(f"the report does not say so: {messages[0]}")
    return wrong + [f"it reached {what}" for what in arena.reached()]
