"""Kills `grade` by SIGKILL at one moment after another: beside each file and log entry that is written, in the middle
of an entry, and in the middle of each training.

Tests run it as a process, which imports the commands once and forks one for each command. Numbers that depend on the
settings stand in for trainings and for programs of a review.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from commandline import files
from grader.changes import reviewing, testing
from grader.changes.drawing import Proofs
from grader.changes.testing import Judged
from grader.cli.task import claim, task
from grader.course import log
from grader.isolation import child

State = tuple[dict[str, bytes], list[Any]]


class Moments:
    """Counts the moments of this process, and kills it at number `last`; 0 means never."""

    def __init__(self, last: int) -> None:
        self.left = last

    def one_more(self, before: Callable[[], object] = lambda: None) -> None:
        """Counts a moment. `before` is what the process does at its last one."""
        self.left -= 1
        if not self.left:
            before()
            os.kill(os.getpid(), signal.SIGKILL)


def command(words: list[str], workspace: Path, last: int) -> NoReturn:
    """Runs a command in this process, which is killed at its moment number `last`."""
    moments = Moments(last)
    replace, append, urandom = os.replace, files.append, os.urandom

    def written(*paths: Any) -> None:
        moments.one_more()
        replace(*paths)
        moments.one_more()

    def appended(path: Path, text: str, *, durable: bool = False) -> None:
        moments.one_more()
        moments.one_more(lambda: append(path, text[: len(text) // 2]))
        append(path, text, durable=durable)
        moments.one_more()

    def train(module: str, *given: str, stdin: str = "") -> str:
        for _ in stand_in(given, module):
            moments.one_more()
        return json.dumps({"begins": BEGINS, "loss": _loss(given)})

    def judge(*_: Any) -> Judged:
        moments.one_more()
        return Judged(True, "It counts.")

    os.replace, files.append, child.run, testing.judge = written, appended, train, judge
    os.urandom = lambda size: urandom(size) if size == 8 else bytes(size)  # the same draw each time, with other ids
    Proofs.is_fault = Proofs.is_right = lambda *_: True
    reviewing.ForkServer = lambda: None
    reviewing.closing = lambda _: contextlib.nullcontext()
    code = 1
    try:
        {"claim": claim, "task": task}[words[0]].main(words[1:], obj=str(workspace), standalone_mode=False)
    except SystemExit as done:
        code = int(done.code or 0)
    except Exception:
        traceback.print_exc()
        code = 3
    os._exit(code)


STEPS, BEGINS = 150, 80


def stand_in(words: tuple[str, ...], module: str) -> Iterator[None]:
    """Writes what a training writes, the metrics in two halves."""
    if module == "harness" and words[0] == "train":
        folder = Path(words[words.index("--runs") + 1]) / words[words.index("--run") + 1]
        folder.mkdir(parents=True, exist_ok=True)
        given = dict(word.split("=", 1) for before, word in itertools.pairwise(words) if before == "--set")
        (folder / "config.json").write_text(json.dumps(given))
        loss = 3 + int(given["seed"]) % 97 / 1000
        last = {"step": int(given["steps"]), "loss": loss, "validation_loss": loss}
        yield from _in_halves(folder, [{"step": 1, "loss": 7.6}, last])
        (folder / "loss").write_text(str(loss))  # as a checkpoint, which comes after the last line
    elif module == "tasks.held_out_stories":
        Path(words[-1]).write_text("a story")
    elif module != "harness":
        folder, late = Path(words[2]), 2.5 if "--mend" in words else 5.0
        folder.mkdir(parents=True, exist_ok=True)
        steps = range(1, STEPS + 1)
        (folder / "norms.jsonl").write_text("".join(f'{{"step": {step}, "embed.update": 0.5}}\n' for step in steps))
        yield from _in_halves(folder, [{"step": step, "loss": late if step >= BEGINS else 2.5} for step in steps])
    yield


def _in_halves(folder: Path, rows: list[dict[str, float]]) -> Iterator[None]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    for end in (len(text) // 2, len(text)):
        (folder / "metrics.jsonl").write_text(text[:end])
        yield


def _loss(words: tuple[str, ...]) -> float | None:
    """What `harness eval` says of a run."""
    if words[0] != "eval":
        return None
    return float((Path(words[words.index("--runs") + 1]) / words[1] / "loss").read_text())


def run(words: list[str], workspace: Path, last: int = 0) -> int:
    """Runs a command in a process of its own. Returns its exit code, which is negative if it was killed."""
    child = os.fork()
    if not child:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        command(words, workspace, last)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def state(workspace: Path) -> State:
    """What a workspace holds: its files but hidden ones, and the kinds and facts of its log, with numbers for ids. What
    is noted twice counts once."""
    paths = [path for path in workspace.rglob("*") if path.is_file()]
    names = {path: str(path.relative_to(workspace)) for path in paths}
    texts = {name: path.read_bytes() for path, name in names.items() if "/." not in f"/{name}"}
    entries, order = list[Any](), dict[str, int]()
    for each in log.read(workspace):
        found = (each.kind, {name: order.get(str(fact), fact) for name, fact in each.facts.items()})
        entries += [found] if found not in entries else []
        order[each.id] = entries.index(found)
    return texts, entries


def losses(words: list[str], workspace: Path, every: int) -> Iterator[str]:
    """Runs a command from the same beginning again and again, each time killed `every` moments later, and each time to
    its end after that. Yields what is lost: where the end is not that of a command that ran through. Leaves the
    workspace as such a command does."""
    before, whole = (workspace.with_name(f"{workspace.name} {name}") for name in ("before", "whole"))
    for copy in (before, whole):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(workspace, copy) if workspace.exists() else None
    code = run(words, whole)
    known = state(whole)
    for last in itertools.count(1, every):
        shutil.rmtree(workspace, ignore_errors=True)
        shutil.copytree(before, workspace) if before.exists() else None
        if run(words, workspace, last) != -signal.SIGKILL:
            if last < 2 * every:
                yield f"{words} has only {last} moments"
            return
        if state(workspace) == known:  # nothing was left to do
            continue
        again, found = run(words, workspace), state(workspace)
        if (again, found) != (code, known):
            yield f"{words}, killed at {last}: {again} and {found[1]} instead of {code} and {known[1]}, " + ", ".join(
                name for name in {*found[0], *known[0]} if found[0].get(name) != known[0].get(name)
            )


if __name__ == "__main__":
    for line in sys.stdin:
        words, folder, every = json.loads(line)
        print(json.dumps(list(losses(words, Path(folder), every))), flush=True)
