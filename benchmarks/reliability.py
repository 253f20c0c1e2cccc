"""Bad conditions and many gradings. Writes the first two tables of docs/reliability.md.

    python benchmarks/reliability.py [GRADINGS] [--move-clock] [--smoke]

GRADINGS, by default 2,000, is the number of gradings in one watch mode, in one studio, by one resident judge and in one
batch. With --move-clock, the clock of the whole machine jumps by an hour, and back a second later. Needs root, for
namespaces and control groups of its own, and takes more than an hour. With --smoke, it tries one condition and two
gradings of each kind, and writes no page.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import psutil
from batch import write_class
from learner import LONGEST, Front
from resident import judges, own_runtime
from timing import GRADE, ROOT, Run, output

from grader.course import catalog
from grader.isolation.cgroup import Group
from grader.judge.submission import Submission
from grader.resident import client
from grader.resident.messages import GradeRequest

PAGE = ROOT / "docs" / "reliability.md"
WRONG = ROOT / "docs" / "examples" / "p07_looks_back.py"
PROBLEM = catalog.find("07")
MOUNTS = ("unshare", "--mount")  # mounts of its own
COMMAND = [*GRADE, "problem", "07", str(WRONG), "--json"]

HEADER = """# Reliability

`python benchmarks/reliability.py` makes the first two tables, the last time on
{circumstances}

## Bad conditions

In each, `grade problem 07` grades the sample attempt of the README. Its report must be the one that
it has otherwise.

| condition | what happened |
|---|---|
"""
OTHERS = "## Planted faults\n"  # from here on, `python -m tests.faults` writes the page
SOAK = """
## Many gradings

{count:,} gradings of problem 07 in each, of files that all differ: in a batch wrong ones, else wrong
and right ones in turn. Watch mode has a terminal, and the studio no browser. The resident judge is
one that `grade problem` has left behind. The figures are those of all processes together after the
first {warm} and after the last.

| where | memory | file descriptors | processes | scratch folders | control groups |
|---|---|---|---|---|---|
"""
Soak = Iterator[tuple[int, dict[str, int]]]  # gradings so far, and what is held then


def report(
    prefix: Sequence[str] = (), disturb: Callable[[psutil.Process], None] | None = None, **env: str | None
) -> object:
    """The sample's report without what depends on the machine, or a sentence on why there is none.

    A variable of `env` that is None is removed. `disturb` acts on the process in the middle of the grading.
    """
    present = {name: value for name, value in {**os.environ, **env}.items() if value is not None}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    grading = subprocess.Popen([*prefix, *COMMAND], env=present, **pipes)
    if disturb:
        time.sleep(0.8)
        disturb(psutil.Process(grading.pid))
    out, error = grading.communicate()
    if grading.returncode != 1:
        return f"**exit code {grading.returncode}**: {error.strip().splitlines()[-1:]}"
    return {key: json.loads(out)[key] for key in ("verdict", "score", "misconception", "checks")}


def after(script: str, *prefix: str) -> tuple[str, ...]:
    """A command line that runs a command after a script, in the same process."""
    return (*prefix, "sh", "-ec", f'{script}; exec "$@"', "sh")


def stop_for_a_minute(grading: psutil.Process) -> None:
    """Stops all processes of a grading, as a suspended laptop does."""
    tree = [grading, *grading.children(recursive=True)]
    for sent in (signal.SIGSTOP, signal.SIGCONT):
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sent)
        if sent == signal.SIGSTOP:
            time.sleep(60)


def move_clock(_: psutil.Process) -> None:
    """Sets the machine's clock forward by an hour, and back."""
    for jump in (3600, -3600):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + jump)
        time.sleep(1)


def with_little_memory() -> object:
    """The report in a control group with 2 GiB, if one can be created."""
    group = Group(2 << 30, tasks=100_000)
    if "memory" not in group.controllers:
        return "not tried: no control group for memory can be created"
    found = report(after("; ".join(f"echo 0 > {file}" for file in group.join_files())))
    group.remove()
    return found


def conditions(folder: Path, *, clock: bool) -> Iterator[tuple[str, object]]:
    """Each bad condition, and the report in it."""
    read_only = after(f"mount --bind {folder} {folder}; mount -o remount,ro,bind {folder}", *MOUNTS)
    no_shm = after("umount -l /dev/shm; mount -t tmpfs -o ro,size=4k tmpfs /dev/shm", *MOUNTS)
    full = after(f"mount -t tmpfs -o size=16k tmpfs {folder}; head -c 16k /dev/zero > {folder}/fill", *MOUNTS)
    full_disk = {"TMPDIR": str(folder), "GRADE_CACHE": str(folder)}
    c_locale = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    yield "one core", report(("taskset", "-c", "0"))
    yield "2 GiB of memory", with_little_memory()
    yield "a home folder that cannot be written", report(read_only, HOME=str(folder), GRADE_CACHE=None)
    yield "no home folder", report(HOME="/nonexistent/home", GRADE_CACHE=None)
    yield "`HOME` not set", report(HOME=None, GRADE_CACHE=None)
    yield "no `/dev/shm`", report(no_shm)
    yield "a full disk for temporary files and caches", report(full, **full_disk)
    yield "a terminal of 40 columns", report(COLUMNS="40")
    yield "`LANG=C`", report(**c_locale)
    yield "a console with code page 1252", report(PYTHONIOENCODING="cp1252")
    yield "50 file descriptors", report(after("ulimit -n 50"))
    yield "all processes stopped for 60 seconds", report(disturb=stop_for_a_minute)
    if clock:
        yield "the clock jumps by an hour, and back", report(disturb=move_clock)


def load(program: psutil.Process) -> dict[str, int]:
    """What a process and all below it hold."""
    tree = [program, *program.children(recursive=True)]
    memory = descriptors = 0
    for process in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            memory += process.memory_full_info().pss
            descriptors += process.num_fds()
    folders = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    own = tuple(f"grade-{process.pid}-" for process in tree)
    # `os.walk` passes over what is removed meanwhile.
    groups = [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names if name.startswith(own)]
    return {
        "memory": memory >> 20, "descriptors": descriptors, "processes": len(tree),
        "scratch": sum(path.name.startswith(own) for folder in folders for path in folder.iterdir()),
        "groups": len(groups),
    }  # fmt: skip


def texts(count: int) -> Iterator[tuple[int, str, bool]]:
    """Wrong files and right ones in turn, which all differ, numbered from 1, and whether each is right."""
    right, wrong = catalog.solution_text(PROBLEM), WRONG.read_text()
    for number in range(1, count + 1):
        passes = number % 2 == 0
        yield number, f"{right if passes else wrong}\nx = {number}\n", passes


def in_a_front(*arguments: str, count: int) -> Soak:
    """What watch mode or a studio holds after each save."""
    with tempfile.TemporaryDirectory() as folder:
        front = Front(Path(folder), PROBLEM, *arguments)
        for number, text, passes in texts(count):
            front.save(text, passes=passes)
            yield number, load(front.process)
        front.close()


def by_a_resident_judge(count: int) -> Soak:
    """What the judge that a command has left behind holds after each submission of further commands."""
    with own_runtime() as folder:
        output([*GRADE, "problem", "07"], cwd=folder, codes=(1,))
        for number, text, passes in texts(count):
            question = GradeRequest(str(PROBLEM.name), Submission(f"{PROBLEM.name}.py", {PROBLEM.name: text}))
            end = time.monotonic() + LONGEST
            while (answer := client.verdict(question, lambda text: None)) is None:  # it is being started, or busy
                if time.monotonic() > end:
                    sys.exit(f"the resident judge: no verdict on submission {number}")
                time.sleep(0.1)
            assert (answer.verdict == "PASS") == passes
            (judge,) = judges()
            yield number, load(judge)


def in_a_batch(count: int) -> Soak:
    """What one batch of wrong files holds, each time that it says how far it is."""
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(write_class(PROBLEM, Path(folder, "class"), count)):
            path.write_text(f"{WRONG.read_text()}\nx = {number}\n")
        command = [*GRADE, "batch", f"{folder}/class", "--out", f"{folder}/results"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as batch:
            for line in batch.stderr or ():
                if line.startswith("grading: "):
                    yield int(line.split()[1].replace(",", "")), load(psutil.Process(batch.pid))
        assert batch.returncode == 0


def main() -> None:
    """Prints both tables, and writes them into the page."""
    run = Run()
    count = 2 if run.smoke else run.rounds(2000)
    warm = 1 if run.smoke else max(10, count // 20)
    os.environ["PYTHONPATH"] = str(ROOT)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    text = HEADER.format(circumstances=run.circumstances())
    usual = report()
    with tempfile.TemporaryDirectory() as folder:
        tried = conditions(Path(folder), clock="--move-clock" in sys.argv)
        for condition, found in islice(tried, 1 if run.smoke else None):
            happened = (
                "the same report" if found == usual else found if isinstance(found, str) else "**another report**"
            )
            print(f"{condition}: {happened}", flush=True)
            text += f"| {condition} | {happened} |\n"
    text += SOAK.format(count=count, warm=warm)
    soaks: Mapping[str, Soak] = {
        "watch mode": in_a_front("watch", "07", count=count),
        "the studio": in_a_front("web", "--no-browser", count=count),
        "a resident judge": by_a_resident_judge(count),
        "a batch": in_a_batch(count),
    }
    for where, soak in soaks.items():
        loads = [held for number, held in soak if number >= warm]
        cells = [f"{loads[0][key]:,} to {last:,}{' MiB' if key == 'memory' else ''}" for key, last in loads[-1].items()]
        line = f"| {where} | {' | '.join(cells)} |\n"
        print(line, end="", flush=True)
        text += line
    if not run.smoke:
        PAGE.write_text(f"{text}\n{OTHERS}{PAGE.read_text().partition(OTHERS)[2]}")


if __name__ == "__main__":
    main()
