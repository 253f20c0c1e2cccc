"""A class of 300 over ten problems, with attacks: the verdicts, resumption after kills, and what is left behind.

    python benchmarks/classroom.py [SUBMISSIONS] [--smoke] [--write]

The class submits correct programs in several styles, every misconception, stubs, and the attacks of the test suite. It
is graded once without interruption, and once killed with SIGKILL three times and resumed. Both runs must give the same
table.
"""

import csv
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from learner import write_sources
from timing import GRADE, ROOT, Run, seconds

from grader.course import catalog

sys.path.insert(0, str(ROOT))

from tests.attacks.arena import FAMILIES

PROBLEMS = [catalog.find(str(number)) for number in range(1, 11)]
KILLS = 3
TIMEOUT = 20  # seconds for each submission
# Each of these attacks would occupy the machine for half a minute; the test suite covers them.
SLOW = {
    ("bombs", "a hundred thousand files"),
    ("reads", "searches its memory"),
    ("patches", "a trace of the worker's frames"),
}
# What the attacks aim at in the test suite; here it is nothing.
TARGETS = dict(PORT="0", UDP="0", JUDGE="1", SEED="987654321", SEEN="", ROOT=str(ROOT), SECRET="x" * 40)
TARGETS |= {key: f"/{key}" for key in ("CANARY", "CACHE", "UNIX", "ABSTRACT", "OUTSIDE")}


@dataclass(frozen=True)
class Expected:
    """A submission and the result that it must get. `most` is the largest score that it may get."""

    text: str
    problem: str
    verdicts: tuple[str, ...]
    misconception: str | None = None
    most: int | None = None


def kinds() -> list[Expected]:
    """One submission of each kind."""
    found = []
    for problem in PROBLEMS:
        source = catalog.solution_path(problem).read_text()
        right = [source, *(path.read_text() for path in catalog.styles(problem))]
        found += [Expected(text, problem.name, ("PASS",)) for text in right]
        found.append(Expected(catalog.stub_text(problem), problem.name, ("NOT ATTEMPTED",)))
        for idea in catalog.misconceptions(problem):
            for text in idea.variants(source).values():
                found.append(Expected(text, problem.name, ("FAIL", "ERROR", "TIMEOUT", "MEMORY"), idea.name))
    for family, attacks in FAMILIES.items():
        for title, attack in attacks.items():
            if (family, title) not in SLOW:
                timeout = ("TIMEOUT",) * (attack.timeout > TIMEOUT)  # the limit is lower here than in the suite
                text, name = attack.text(TARGETS), catalog.find("07").name
                found.append(Expected(text, name, attack.verdicts + timeout, most=1))
    return found


def unexpected(learner: str, item: Expected, rows: list[dict[str, str]]) -> str:
    """A line if the learner's results are not as expected, else nothing."""
    own = {row["problem"]: row for row in rows if row["learner"] == learner}
    row = own.pop(item.problem)
    if any(other["verdict"] not in ("PASS", "NOT ATTEMPTED") for other in own.values()):
        return f"{learner}: a module that it imports does not pass"
    expected = row["verdict"] in item.verdicts and item.misconception in (None, row["misconception"])
    expected = expected and (row["verdict"] != "PASS" or row["score"] == row["points"])
    if expected and (item.most is None or int(row["score"]) <= item.most):
        return ""
    return f"{learner}: {row}, expected {item.verdicts} {item.misconception!r}"


def killed_after(command: list[str], env: dict[str, str], results: Path, count: int) -> None:
    """Runs a batch that is killed when so many submissions are graded. Exits if a process outlives it."""
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and graded(results) < count:
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    if alive:
        sys.exit(f"left behind: {alive}")


def graded(results: Path) -> int:
    """How many submissions a batch has graded."""
    try:
        with sqlite3.connect(f"file:{results / 'results.sqlite'}?mode=ro", uri=True) as database:
            return int(database.execute("select count(*) from records where key <> ''").fetchone()[0])
    except sqlite3.Error:
        return 0


def main() -> None:
    run = Run()
    count, known, rng = 4 if run.smoke else run.rounds(300), kinds(), random.Random(5)
    chosen = known[:count] + [rng.choice(known) for _ in range(count - len(known))]
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        (top / "tmp").mkdir()
        (top / "seed.txt").write_text("a secret")
        for number, item in enumerate(chosen):
            learner = top / "class" / f"learner {number:03}"
            # Learners also submit the modules that a file imports.
            write_sources(catalog.reference_sources(catalog.load(item.problem)), learner)
            text = f"{item.text}\nNUMBER = {number}\n"
            (learner / f"{item.problem}.py").write_text(text, errors="surrogatepass")
        own = {"TMPDIR": str(top / "tmp"), "GRADE_CACHE": str(top / "cache")}

        def command(results: str) -> list[str]:
            where = [str(top / "class"), "--out", str(top / results), "--seed-file", str(top / "seed.txt")]
            return [*GRADE, "batch", *where, "--problems", "01-10", "--timeout", str(TIMEOUT)]

        run.figure(
            "the whole class, with attacks that run into their time limit", seconds(command("whole"), **own), "s"
        )
        rows = list(csv.DictReader((top / "whole" / "results.csv").open(newline="", encoding="utf-8-sig")))
        submitted = sum(row["message"] != "nothing was submitted" for row in rows)
        env = {**os.environ, "PYTHONPATH": str(ROOT), **own}
        for part in range(1, KILLS + 1):
            killed_after(command("killed"), env, top / "killed", submitted * part // (KILLS + 1))
        seconds(command("killed"), **own)
        wrong = [line for n, item in enumerate(chosen) if (line := unexpected(f"learner {n:03}", item, rows))]
        print(*wrong, sep="\n", end="\n" if wrong else "")
        same = (top / "whole" / "results.csv").read_text() == (top / "killed" / "results.csv").read_text()
        left = len(list((top / "tmp").iterdir()))
    run.figure("unexpected results", len(wrong), f"of {submitted}", at_most=0)
    run.figure(f"other tables after {KILLS} kills", int(not same), at_most=0)
    run.figure("entries left in TMPDIR", left, at_most=0)
    run.end()


if __name__ == "__main__":
    main()
