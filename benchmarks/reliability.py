"""What happens in bad conditions and after many gradings. Writes the tables of docs/reliability.md.

    python benchmarks/reliability.py [GRADINGS]

GRADINGS, by default 2,000, is the number of gradings in one resident judge (watch mode and the studio have one) and in one batch.
Needs root, for namespaces and control groups of its own, and takes about half an hour.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "reliability.md"
WRONG = ROOT / "docs" / "examples" / "p07_looks_back.py"
SECONDS_STOPPED = 60
GRADE = [sys.executable, "-P", "-m", "grader"]

HEADER = """# Reliability

`python benchmarks/reliability.py` makes these tables. It ran on
Linux {kernel} with Python {python}, {cores} cores and {memory:.0f} GiB.

## Bad conditions

In each, `grade problem 07` grades the sample attempt of the README. Its report must be the one that it has otherwise.

| condition | what happened |
|---|---|
"""
SOAK = """
## Many gradings

{count:,} gradings of problem 07, of files that all differ, one after the other. The figures are those of all processes together
after the first {warm} and after the last.

| where | memory | file descriptors | processes | scratch folders | control groups |
|---|---|---|---|---|---|
"""


def graded(prefix: tuple[str, ...] = (), **env: str | None) -> subprocess.CompletedProcess[str]:
    """Grades the sample. A variable that is None is removed."""
    variables = {name: value for name, value in {**os.environ, **env}.items() if value is not None}
    variables["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [*prefix, *GRADE, "problem", "07", str(WRONG), "--json"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def essence(output: str) -> object:
    """A report without what depends on the machine."""
    report = json.loads(output)
    return {key: report[key] for key in ("verdict", "score", "misconception", "checks")}


def outcome(done: subprocess.CompletedProcess[str], usual: object) -> str:
    """What happened, as a sentence."""
    if done.returncode != 1:
        return f"**exit code {done.returncode}**: {done.stderr.strip().splitlines()[-1:]}"
    return "the same report" if essence(done.stdout) == usual else "**another report**"


def in_namespace(script: str) -> tuple[str, ...]:
    """A command line that runs a command after `script` in mounts of its own."""
    return ("unshare", "--mount", "sh", "-ec", f'{script}; exec "$@"', "sh")


def stopped_for_a_minute(usual: object) -> str:
    """Stops all processes of a grading in the middle, as a suspended laptop does."""
    grading = subprocess.Popen(
        [*GRADE, "problem", "07", str(WRONG), "--json"], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(0.8)
    tree = [psutil.Process(grading.pid), *psutil.Process(grading.pid).children(recursive=True)]
    for sent in (signal.SIGSTOP, signal.SIGCONT):
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sent)
        if sent == signal.SIGSTOP:
            time.sleep(SECONDS_STOPPED)
    out, error = grading.communicate()
    return outcome(subprocess.CompletedProcess([], grading.returncode, out, error), usual)


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[tuple[str, ...]]:
    """A command line that runs a command in a control group with this much memory and no swap."""
    group = Path("/sys/fs/cgroup") / f"gpt-kata-reliability-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.max").write_text(str(size))
        with contextlib.suppress(OSError):
            (group / "memory.swap.max").write_text("0")
        yield ("sh", "-ec", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def conditions() -> Iterator[tuple[str, str]]:
    """Each bad condition, and what happened."""
    usual = essence(graded().stdout)
    yield "one core", outcome(graded(("taskset", "-c", "0")), usual)
    try:
        with memory_limit(2 << 30) as prefix:
            yield "2 GiB of memory", outcome(graded(prefix), usual)
    except OSError as error:
        yield "2 GiB of memory", f"not tried: {error}"
    with tempfile.TemporaryDirectory() as home:
        read_only = in_namespace(f"mount --bind {home} {home}; mount -o remount,ro,bind {home}")
        yield "a home folder that cannot be written", outcome(graded(read_only, HOME=home, GRADE_CACHE=None), usual)
    yield "no home folder", outcome(graded(HOME="/nonexistent/home", GRADE_CACHE=None), usual)
    yield "`HOME` not set", outcome(graded(HOME=None, GRADE_CACHE=None), usual)
    yield (
        "no `/dev/shm`",
        outcome(graded(in_namespace("umount -l /dev/shm; mount -t tmpfs -o ro,size=4k tmpfs /dev/shm")), usual),
    )
    with tempfile.TemporaryDirectory() as full:
        script = f"mount -t tmpfs -o size=16k tmpfs {full}; head -c 16k /dev/zero > {full}/fill"
        yield (
            "a full disk for temporary files and caches",
            outcome(graded(in_namespace(script), TMPDIR=full, GRADE_CACHE=full), usual),
        )
    yield "a terminal of 40 columns", outcome(graded(COLUMNS="40"), usual)
    yield "`LANG=C`", outcome(graded(LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"), usual)
    yield "a console with code page 1252", outcome(graded(PYTHONIOENCODING="cp1252"), usual)
    yield "50 file descriptors", outcome(graded(("sh", "-c", 'ulimit -n 50; exec "$@"', "sh")), usual)
    yield f"all processes stopped for {SECONDS_STOPPED} seconds", stopped_for_a_minute(usual)


def load() -> dict[str, int]:
    """What this process and all below it hold."""
    tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
    memory = descriptors = 0
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            memory += process.memory_full_info().pss
            descriptors += process.num_fds()
    folders = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    return {
        "memory": memory >> 20, "descriptors": descriptors, "processes": len(tree),
        "scratch": sum(1 for folder in folders for _ in folder.glob("grade-*")),
        "groups": sum(1 for _ in Path("/sys/fs/cgroup").glob("**/grade-*")),
    }  # fmt: skip


def row(where: str, before: dict[str, int], after: dict[str, int]) -> str:
    """A row of the second table."""
    cells = [f"{before[key]:,} to {after[key]:,}{' MiB' if key == 'memory' else ''}" for key in before]
    return f"| {where} | {' | '.join(cells)} |\n"


def in_a_resident(count: int, warm: int) -> str:
    """Many gradings by one resident judge."""
    from grader.course import catalog
    from grader.judge.submission import Submission
    from grader.resident.resident import Resident

    problem, text = catalog.find("07"), WRONG.read_text()
    before: dict[str, int] = {}
    with Resident() as resident:
        for number in range(count):
            report = resident.grade(problem, Submission(WRONG.name, {problem.name: f"{text}\nx = {number}\n"}))
            assert report.score == 1, report
            if number + 1 == warm:
                before = load()
        return row("a resident judge (watch mode, the studio)", before, load())


def in_a_batch(count: int, warm: int) -> str:
    """One batch, measured while it runs."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            learner = Path(folder, "class", f"learner{number:04}")
            learner.mkdir(parents=True)
            (learner / "p07_next_token_loss.py").write_text(f"{WRONG.read_text()}\nx = {number}\n")
        command = [*GRADE, "batch", f"{folder}/class", "--out", f"{folder}/results"]
        before: dict[str, int] = {}
        with subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as batch:
            latest = before
            assert batch.stderr
            for line in batch.stderr:
                if line.startswith("grading: "):
                    latest = load()
                    done = int(line.split()[1].replace(",", ""))
                    before = before or (latest if done >= warm else {})
        assert batch.returncode == 0
        return row("a batch", before, latest)


def main(count: int = 2000) -> None:
    """Writes the page."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = psutil.virtual_memory().total / 2**30
    text = HEADER.format(
        kernel=os.uname().release.split("-")[0], python=sys.version.split()[0], cores=os.cpu_count(), memory=memory
    )
    for condition, happened in conditions():
        print(f"{condition}: {happened}", flush=True)
        text += f"| {condition} | {happened} |\n"
    warm = max(10, count // 20)
    text += SOAK.format(count=count, warm=warm)
    soaks: list[Callable[[int, int], str]] = [in_a_resident, in_a_batch]
    for soak in soaks:
        line = soak(count, warm)
        print(line, end="", flush=True)
        text += line
    PAGE.write_text(text)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
