"""What a learner does: edits with programs that no cache has seen, and a program that grades each save."""

import contextlib
import os
import pty
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import psutil
from timing import GRADE, ROOT

from grader.course import catalog
from grader.course.log import Progress
from grader.course.workspace import Workspace
from grader.problem import Problem

LONGEST = 120.0  # seconds to wait for a verdict
# A place in each reference, and the same with a factor.
PLACES = {
    2: ("q @ k.T / jnp.sqrt(K)", "q @ k.T * {} / jnp.sqrt(K)"),
    4: ("centered = x - mean", "centered = (x - mean) * {}"),
    5: ("x = x + self.attn(self.ln1(x))", "x = x + self.attn(self.ln1(x)) * {}"),
    6: ("return self.ln_f(x_TD) @", "return {} * self.ln_f(x_TD) @"),
    7: ("return jnp.sum(losses * counts)", "return {} * jnp.sum(losses * counts)"),
    9: ("return -learning_rate", "return -{} * learning_rate"),
    12: ("return loss / count,", "return {} * loss / count,"),
    22: ("return jnp.mean(jax.vmap(next_token_loss", "return {} * jnp.mean(jax.vmap(next_token_loss"),
    43: ("return (out, lse) if return_lse else out", "return ({0} * out, lse) if return_lse else {0} * out"),
    57: ("return jnp.exp(-jnp.mean", "return {} * jnp.exp(-jnp.mean"),
}


def edited(problem: Problem, factor: float) -> str:
    """The reference with a factor, which makes it another program."""
    find, put = PLACES[problem.number]
    source = catalog.reference_sources(problem)[problem.name]
    assert source.count(find) == 1
    return source.replace(find, put.replace("{0}", "{}").replace("{}", repr(factor)))


def edits(problem: Problem) -> Iterator[tuple[str, str]]:
    """A right text and one with a misconception, again and again, each with a factor that none before had."""
    for number in count(1):
        right = edited(problem, 1 + number * 2**-22)  # too little for a check to see
        ideas = (idea for idea in catalog.misconceptions(problem) if right.count(idea.find) == 1)
        yield right, next(text for idea in ideas for text in idea.variants(right).values())


def with_two_ideas(problem: Problem) -> str:
    """The reference with the first two misconceptions that have different names and raise nothing."""
    text, names = edited(problem, 1.0), set[str]()
    for idea in catalog.misconceptions(problem):
        if not idea.raises and idea.name not in names and text.count(idea.find) == 1:
            text = next(iter(idea.variants(text).values()))
            names.add(idea.name)
        if len(names) == 2:
            break
    return text


def write_sources(sources: Mapping[str, str], folder: Path) -> None:
    """Writes modules into a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(text)


class Front:
    """`grade watch` or `grade web` on a workspace of references, with a terminal of its own."""

    def __init__(self, folder: Path, problem: Problem, *arguments: str) -> None:
        self._problem, self._space = problem, Workspace(folder / "attempts")
        sources = catalog.reference_sources(problem)
        write_sources(sources, self._space.folder)
        terminal, its_end = pty.openpty()
        self.process = psutil.Popen(
            [*GRADE, *arguments], cwd=folder, stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GRADE_STUDIO": f"{folder}/studio", "TERM": "xterm"},
        )  # fmt: skip
        threading.Thread(target=_drain, args=(terminal,), daemon=True).start()
        while not self._has_verdict(passes=True, longest=1):  # until it watches the folder
            self._write(sources[problem.name])

    def save(self, text: str, *, passes: bool) -> float:
        """The seconds from a save to its verdict, which must be another one than before."""
        start = time.perf_counter()
        self._write(text)
        if not self._has_verdict(passes=passes, longest=LONGEST):
            sys.exit(f"problem {self._problem.label}: no verdict within {LONGEST:g} s, or the same as before")
        return time.perf_counter() - start

    def close(self) -> None:
        """Ends the program, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def _write(self, text: str) -> None:
        """Replaces the file at once, as careful editors do."""
        saved = self._space.folder / "saved"
        saved.write_text(text)
        saved.replace(self._space.file(self._problem))

    def _has_verdict(self, *, passes: bool, longest: float) -> bool:
        """Waits until the last grading has passed, or has not. Returns whether it is so within these seconds."""
        end = time.monotonic() + longest
        while time.monotonic() < end:
            last = self._space.progress().get(self._problem.name, Progress()).last_verdict
            if last and (last == "PASS") == passes:
                return True
            time.sleep(0.01)
        return False


def _drain(terminal: int) -> None:
    """Reads what a program shows, to its end."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass
