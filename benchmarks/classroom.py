"""Grades a class of 300 over ten problems, and checks scores, resumption, leftover files and memory.

    python benchmarks/classroom.py [SUBMISSIONS] [--smoke]

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
from timing import ROOT, smoke

from grader.course import catalog

sys.path.insert(0, str(ROOT))

from tests.attacks.arena import FAMILIES

PROBLEMS = [catalog.find(str(number)) for number in range(1, 11)]
GRADE = [sys.executable, "-m", "grader"]
KILLS = 3
TIMEOUT = 20  # seconds for each submission
# Each of these attacks would occupy the machine for half a minute; the test suite covers them.
SLOW = {
    ("bombs", "a hundred thousand files"),
    ("reads", "searches its memory"),
    ("patches", "a trace of the worker's frames"),
}


@dataclass(frozen=True)
class Expected:
    """A generated submission and the result that it must get. `most` is the largest score that it may get."""

    text: str
    problem: str
    verdicts: tuple[str, ...]
    misconception: str | None = None
    most: int | None = None


def generated() -> list[Expected]:
    """One submission of each kind."""
    submissions = []
    for problem in PROBLEMS:
        source = catalog.solution_path(problem).read_text()
        submissions.append(Expected(source, problem.name, ("PASS",)))
        submissions += [Expected(path.read_text(), problem.name, ("PASS",)) for path in catalog.styles(problem)]
        submissions.append(Expected(catalog.stub_text(problem), problem.name, ("NOT ATTEMPTED",)))
        for idea in catalog.misconceptions(problem):
            for text in idea.variants(source).values():
                submissions.append(Expected(text, problem.name, ("FAIL", "ERROR", "TIMEOUT", "MEMORY"), idea.name))
    name = "p07_next_token_loss"
    facts = {
        "PORT": "0",
        "UDP": "0",
        "JUDGE": "1",
        "SEED": "987654321",
        "SEEN": "",
        "ROOT": str(ROOT),
        "SECRET": "x" * 40,
    }
    facts |= {key: f"/{key}" for key in ("CANARY", "CACHE", "UNIX", "ABSTRACT", "OUTSIDE")}
    for family, attacks in FAMILIES.items():
        for title, attack in attacks.items():
            if (family, title) not in SLOW:
                timeout = ("TIMEOUT",) * (attack.timeout > TIMEOUT)  # the limit is lower here than in the suite
                submissions.append(Expected(attack.text(facts), name, attack.verdicts + timeout, most=1))
    return submissions


def main() -> None:
    count = 4 if smoke() else int(sys.argv[1]) if len(sys.argv) > 1 else 300
    kinds = generated()
    rng = random.Random(5)
    chosen = kinds[:count] + [rng.choice(kinds) for _ in range(count - len(kinds))]
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        (top / "tmp").mkdir()
        (top / "seed.txt").write_text("a secret")
        for number, item in enumerate(chosen):
            path = top / "class" / f"learner {number:03}" / f"{item.problem}.py"
            path.parent.mkdir(parents=True)
            # Learners also submit the modules that a file imports.
            for name, text in catalog.reference_sources(catalog.load(item.problem)).items():
                (path.parent / f"{name}.py").write_text(text)
            path.write_text(f"{item.text}\nNUMBER = {number}\n", errors="surrogatepass")
        env = {**os.environ, "TMPDIR": str(top / "tmp"), "GRADE_CACHE": str(top / "cache")}

        def command(results: str) -> list[str]:
            return [
                *GRADE,
                "batch",
                str(top / "class"),
                "--out",
                str(top / results),
                "--seed-file",
                str(top / "seed.txt"),
                "--problems",
                "01-10",
                "--timeout",
                str(TIMEOUT),
            ]

        start = time.perf_counter()
        memory = whole(command("whole"), env)
        elapsed = time.perf_counter() - start
        rows = list(csv.DictReader((top / "whole" / "results.csv").open(newline="", encoding="utf-8-sig")))
        graded = sum(row["message"] != "nothing was submitted" for row in rows)
        print(f"{graded} submissions in {elapsed:.0f} s, including attacks that run into their time limit")
        killed(command("killed"), env, top / "killed", graded)
        wrong = [line for number, item in enumerate(chosen) for line in compare(number, item, rows)]
        same = (top / "whole" / "results.csv").read_text() == (top / "killed" / "results.csv").read_text()
        leftovers = [path.name for path in (top / "tmp").iterdir()]
        print(*wrong, sep="\n", end="\n" if wrong else "")
        print(f"unexpected results: {len(wrong)}")
        print(f"same table after {KILLS} kills: {same}; left in TMPDIR: {leftovers or 'nothing'}")
        third = len(memory) // 3
        first, last = max(memory[third : 2 * third]), max(memory[2 * third :])
        print(f"peak memory of all judges: {first >> 20} MiB in the second third, {last >> 20} MiB in the last")
        sys.exit(1 if wrong or not same or leftovers else 0)


def compare(number: int, item: Expected, rows: list[dict[str, str]]) -> list[str]:
    """A line if the learner's results are not as expected."""
    own = {row["problem"]: row for row in rows if row["learner"] == f"learner {number:03}"}
    row = own.pop(item.problem)
    if any(other["verdict"] not in ("PASS", "NOT ATTEMPTED") for other in own.values()):
        return [f"  learner {number:03}: a module that it imports does not pass"]
    expected = row["verdict"] in item.verdicts and item.misconception in (None, row["misconception"])
    expected = expected and (row["verdict"] != "PASS" or row["score"] == row["points"])
    expected = expected and (item.most is None or int(row["score"]) <= item.most)
    result = f"{row['verdict']} {row['score']} {row['misconception']!r}"
    line = f"  {row['learner']} {item.problem}: {result}, expected {item.verdicts} {item.misconception!r}"
    return [] if expected else [line]


def whole(command: list[str], env: dict[str, str]) -> list[int]:
    """Runs a batch. Returns the memory of its process and its pool in bytes, measured every half second."""
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    memory = []
    while process.poll() is None:
        total = 0
        for each in [psutil.Process(process.pid), *psutil.Process(process.pid).children()]:
            try:
                total += each.memory_info().rss
            except psutil.Error:
                continue
        memory.append(total)
        time.sleep(0.5)
    if process.returncode:
        sys.exit(f"{command} failed with {process.returncode}")
    return memory


def killed(command: list[str], env: dict[str, str], results: Path, count: int) -> None:
    """Runs a batch that is killed after a quarter, a half and three quarters of the submissions."""
    for part in range(1, KILLS + 1):
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            time.sleep(0.1)
            if (results / "results.sqlite").exists():
                with sqlite3.connect(f"file:{results / 'results.sqlite'}?mode=ro", uri=True) as database:
                    try:
                        done = database.execute("select count(*) from records where key <> ''").fetchone()[0]
                    except sqlite3.Error:
                        continue
                if done >= count * part / (KILLS + 1):
                    break
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=20)
        if alive:
            sys.exit(f"left behind: {alive}")
    subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
