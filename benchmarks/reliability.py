"""What happens in bad conditions and after many gradings. Writes the first two tables of docs/reliability.md.

    python benchmarks/reliability.py [GRADINGS] [--move-clock]
    python benchmarks/reliability.py --smoke

GRADINGS, by default 2,000, is the number of gradings in one watch mode, in one studio, by one resident judge and in one
batch. With --move-clock, the clock of the whole machine jumps by an hour, and back a second later. Needs root, for
namespaces and control groups of its own, and takes more than an hour.
"""

import argparse
import contextlib
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grader.course import catalog  # noqa: E402
from grader.course.log import Progress  # noqa: E402
from grader.course.workspace import Workspace  # noqa: E402
from grader.isolation.cgroup import Group  # noqa: E402
from grader.judge.submission import Submission  # noqa: E402
from grader.resident import client, connection  # noqa: E402
from grader.resident.messages import GradeRequest  # noqa: E402

PAGE = ROOT / "docs" / "reliability.md"
WRONG = ROOT / "docs" / "examples" / "p07_looks_back.py"
PROBLEM = catalog.find("07")
SECONDS_STOPPED = 60
JUMP = 3600.0  # seconds
LONGEST = 120.0  # seconds to wait for a verdict
GRADE = [sys.executable, "-P", "-m", "grader"]

HEADER = """# Reliability

`python benchmarks/reliability.py` makes the first two tables. It ran on
Linux {kernel} with Python {python}, {cores} cores and {memory:.0f} GiB.

## Bad conditions

In each, `grade problem 07` grades the sample attempt of the README. Its report must be the one that it has otherwise.

| condition | what happened |
|---|---|
"""
OTHERS = "## Planted faults\n"  # from here on, `python -m tests.faults` writes the page
SOAK = """
## Many gradings

{count:,} gradings of problem 07 in each, of files that all differ: in a batch wrong ones, else wrong and right ones in turn.
Watch mode has a terminal, and the studio no browser. The resident judge is one that `grade problem` has left behind. The figures
are those of all processes together after the first {warm} and after the last.

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


def disturbed(disturb: Callable[[psutil.Process], None], usual: object) -> str:
    """What happens to a grading that is disturbed in the middle."""
    grading = subprocess.Popen(
        [*GRADE, "problem", "07", str(WRONG), "--json"], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(0.8)
    disturb(psutil.Process(grading.pid))
    out, error = grading.communicate()
    return outcome(subprocess.CompletedProcess([], grading.returncode, out, error), usual)


def stop_for_a_minute(grading: psutil.Process) -> None:
    """Stops all processes of a grading, as a suspended laptop does."""
    tree = [grading, *grading.children(recursive=True)]
    for sent in (signal.SIGSTOP, signal.SIGCONT):
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sent)
        if sent == signal.SIGSTOP:
            time.sleep(SECONDS_STOPPED)


def move_clock(_: psutil.Process) -> None:
    """Sets the machine's clock forward, and back."""
    for jump in (JUMP, -JUMP):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + jump)
        time.sleep(1)


@contextlib.contextmanager
def memory_limit(size: int) -> Iterator[tuple[str, ...]]:
    """A command line that runs a command in a control group with this much memory. Raises OSError if there can be
    none."""
    group = Group(size, tasks=100_000)
    try:
        if "memory" not in group.controllers:
            raise OSError("no control group for memory can be created")
        joins = "; ".join(f"echo 0 > {file}" for file in group.join_files())
        yield ("sh", "-ec", f'{joins}; exec "$@"', "sh")
    finally:
        group.remove()


def conditions(*, clock: bool) -> Iterator[tuple[str, str]]:
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
    yield f"all processes stopped for {SECONDS_STOPPED} seconds", disturbed(stop_for_a_minute, usual)
    if clock:
        yield "the clock jumps by an hour, and back", disturbed(move_clock, usual)


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


def row(where: str, before: dict[str, int], after: dict[str, int]) -> str:
    """A row of the second table."""
    cells = [f"{before[key]:,} to {after[key]:,}{' MiB' if key == 'memory' else ''}" for key in before]
    return f"| {where} | {' | '.join(cells)} |\n"


def in_a_program(where: str, *arguments: str, count: int, warm: int) -> str:
    """Many saves of a file in the workspace of watch mode or of a studio, which has a terminal of its own."""
    texts = {"FAIL": WRONG.read_text(), "PASS": catalog.solution_text(PROBLEM)}
    before: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        space = Workspace(Path(folder, "attempts"))
        space.folder.mkdir()
        terminal, its_end = pty.openpty()
        program = psutil.Popen(
            [*GRADE, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GRADE_STUDIO": f"{folder}/studio", "TERM": "xterm"},
            stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=drain, args=(terminal,), daemon=True).start()
        while not has_verdict(space, "PASS", seconds=1):  # until it looks at the folder
            save(space, texts["PASS"])
        for number in range(count):
            expected = "PASS" if number % 2 else "FAIL"
            save(space, f"{texts[expected]}\nx = {number}\n")
            assert has_verdict(space, expected, LONGEST), f"{where}: no verdict on save {number}"
            if number + 1 == warm:
                before = load(program)
        line = row(where, before, load(program))
        program.send_signal(signal.SIGINT)
        program.wait()
    return line


def by_a_resident_judge(count: int, warm: int) -> str:
    """Many submissions to the judge that a command has left behind, as the next commands send them."""
    texts = {"FAIL": WRONG.read_text(), "PASS": catalog.solution_text(PROBLEM)}
    before: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, resident_allowed(folder):
        Path(folder, "attempts").mkdir()
        subprocess.run([*GRADE, "problem", "07"], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        for number in range(count):
            expected = "PASS" if number % 2 else "FAIL"
            sources = {PROBLEM.name: f"{texts[expected]}\nx = {number}\n"}
            question = GradeRequest(str(PROBLEM.name), Submission(f"{PROBLEM.name}.py", sources))
            end = time.monotonic() + LONGEST
            while (answer := client.verdict(question, lambda text: None)) is None:  # it is being started, or busy
                assert time.monotonic() < end, f"the resident judge: no verdict on submission {number}"
                time.sleep(0.1)
            assert answer.verdict == expected
            (judge,) = (psutil.Process(each.process) for _, each in connection.connect_to_all())
            if number + 1 == warm:
                before = load(judge)
        line = row("a resident judge", before, load(judge))
        judge.terminate()
        judge.wait()
    return line


@contextlib.contextmanager
def resident_allowed(folder: str) -> Iterator[None]:
    """Lets commands leave a resident judge behind, with its socket in a folder."""
    changed = {"XDG_RUNTIME_DIR": folder, client.VARIABLE: "1", "CI": ""}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def save(space: Workspace, text: str) -> None:
    """Replaces the learner's file at once, as careful editors do."""
    saved = space.folder / "saved"
    saved.write_text(text)
    saved.replace(space.file(PROBLEM))


def has_verdict(space: Workspace, verdict: str, seconds: float) -> bool:
    """Waits until the last verdict in the progress is this one. Returns whether it is within these seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if space.progress().get(PROBLEM.name, Progress()).last_verdict == verdict:
            return True
        time.sleep(0.01)
    return False


def drain(terminal: int) -> None:
    """Reads what a program shows, to its end."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


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
                    latest = load(psutil.Process(batch.pid))
                    done = int(line.split()[1].replace(",", ""))
                    before = before or (latest if done >= warm else {})
        assert batch.returncode == 0
        return row("a batch", before, latest)


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gradings", nargs="?", type=int, default=2000)
    parser.add_argument("--move-clock", action="store_true")
    parser.add_argument(
        "--smoke", action="store_true", help="one condition and two gradings of each kind; writes no page"
    )
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = psutil.virtual_memory().total / 2**30
    text = HEADER.format(
        kernel=os.uname().release.split("-")[0], python=sys.version.split()[0], cores=os.cpu_count(), memory=memory
    )
    for condition, happened in islice(conditions(clock=chosen.move_clock), 1 if chosen.smoke else None):
        print(f"{condition}: {happened}", flush=True)
        text += f"| {condition} | {happened} |\n"
    count, warm = (2, 1) if chosen.smoke else (chosen.gradings, max(10, chosen.gradings // 20))
    text += SOAK.format(count=count, warm=warm)
    soaks: list[Callable[[], str]] = [
        lambda: in_a_program("watch mode", "watch", "07", count=count, warm=warm),
        lambda: in_a_program("the studio", "web", "--no-browser", count=count, warm=warm),
        lambda: by_a_resident_judge(count, warm),
        lambda: in_a_batch(count, warm),
    ]
    for soak in soaks:
        start, line = time.monotonic(), soak()
        print(f"{line}({time.monotonic() - start:.0f} s)", flush=True)
        text += line
    if not chosen.smoke:
        PAGE.write_text(f"{text}\n{OTHERS}{PAGE.read_text().partition(OTHERS)[2]}")


if __name__ == "__main__":
    main()
