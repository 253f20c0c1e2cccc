"""The judge's side of a worker: asks it to load files and run probes, and turns each answer or death into an
Outcome."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from subprocess import TimeoutExpired
from time import monotonic
from typing import Any, Literal

import numpy as np

from commandline.problem_name import ProblemName
from commandline.text import printable
from grader.course.selection import selected
from grader.errors import CourseError, WorkerStartError
from grader.isolation.level import NOTHING_RUN, Isolation
from grader.isolation.sandbox import WorkerProcess
from grader.judge.submission import Submission
from grader.judge.verdict import Verdict
from grader.paths import ROOT
from grader.problem import PROGRAM, Case, Check, Problem
from grader.wire.channel import ChannelClosedError, ChannelError, DeadlineExceededError, Frame, arrives, receive, send
from grader.wire.clock import PATIENCE, Clock
from grader.wire.compare import Leaf
from grader.wire.program import CASE, FILE, ROWS, SAVED, to_save

Say = Callable[[str], None]
Frames = tuple[tuple[str, int, str, str], ...]  # file, line, function and code of each
Mode = Literal["trace", "run", "both", "eager", "until_nan"]
Stage = Literal["saves", "probes", "restores", "reads"]
MOST_PROGRESS = 1000  # lines of progress before an answer
_UNSOUND = f"{CourseError.__module__}.{CourseError.__name__}: "  # the beginning of the last line of its traceback
MOST_STEPS = 1_000_000
EXIT_SECONDS = 5.0  # for a process to exit after it closed its channel
GRACE_SECONDS = 1.0  # for a worker whose time is up to say where its file was
START_SECONDS = 120.0  # for a worker to import JAX from a cold, busy disk

_KINDS = {
    "not_implemented": Verdict.NOT_ATTEMPTED,
    "bad_output": Verdict.FAIL,
    "forbidden": Verdict.FAIL,
    "memory": Verdict.MEMORY,
    "timeout": Verdict.TIMEOUT,
}
# The kinds of failure that a worker can report. The others are the judge's own.
_WORKER_KINDS = frozenset(
    "not_implemented syntax missing_import raised tracer plain_container bad_output bad_entry memory timeout "
    "processes exit refused".split()
)


@cache
def importable() -> str:
    """Lists in words what a submission can import: the installed ones of the usual libraries, and more."""
    libraries = "jax flax optax orbax grain numpy einops jaxtyping tiktoken regex safetensors".split()
    found = ", ".join(name for name in libraries if find_spec(name))
    return f"{found}, Python's standard library and the files of other problems"


@dataclass(frozen=True)
class Failure:
    """The reason why a probe returned no numbers. All text may come from the submission.

    Attributes:
        kind: The kind of failure, such as `raised` or `timeout`.
        type: The name of the exception's type, if there is one.
        message: The message.
        frames: The learner's own frames: file, line, function and code of each.
        caret: The line with the caret under a syntax error.
        remedy: What to do, in one clause, if it is known.
    """

    kind: str
    type: str = ""
    message: str = ""
    frames: Frames = ()
    caret: str = ""
    remedy: str = ""

    @property
    def verdict(self) -> Verdict:
        return _KINDS.get(self.kind, Verdict.ERROR)

    @property
    def identity(self) -> tuple[str, str, str]:
        """The kind, type and message of the error: equal for the same error raised at different lines."""
        return self.kind, self.type, self.message

    def sentence(self) -> str:
        """Returns one line that says what went wrong and, if known, what to do."""
        where = f" ({self.frames[-1][0]}, line {self.frames[-1][1]})" if self.frames else ""
        message = self.message or "no message"
        match self.kind:
            case "not_implemented":
                return f"not implemented yet{where}"
            case "syntax":
                return f"{self.type}: {message}{where}"
            case "missing_import" if ProblemName.parse(message):
                return (
                    f"{message}.py is not in the same folder; solve that problem first, or define what this file "
                    f"needs{where}"
                )
            case "missing_import":
                what = "; `pip install einops` adds it, or use `reshape` and `transpose`" if message == "einops" else ""
                return f"module `{message}` is not available{what or f'; you can import {importable()}'}{where}"
            case "raised" if self.remedy:  # JAX's own first line says enough
                return f"{self.type}: {message.splitlines()[0].rstrip('.')}{where}; {self.remedy}"
            case "raised":
                return f"{self.type}: {' '.join(message.split())}{where}"
            case "tracer":
                return (
                    f"a traced array leaked out of an earlier call through a global or an attribute; return it "
                    f"instead{where}"
                )
            case _:
                return f"{message}{where}"

    def line_in(self, file: str) -> int:
        """Returns the line of the innermost frame in a file; 0 if none is in it."""
        return next((line for name, line, _, _ in reversed(self.frames) if name == file), 0)

    def frames_text(self) -> str:
        """Returns the learner's own frames, and a caret under a syntax error."""
        lines = []
        for file, line, function, code in self.frames:
            lines.append(f"{file}, line {line}{f', in {function}' if function else ''}")
            lines += [f"    {code}"] * bool(code)
        return "\n".join(lines + [f"    {self.caret}"] * bool(self.caret))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a probe: leaves, or a failure.

    Attributes:
        leaves: The leaves to compare.
        notes: Sentences for the learner.
        numeric: Whether the gradient was computed by finite differences, which are less exact.
        traced: Whether a witness computed the leaves.
        failure: The reason why there are no leaves; None if there are.
    """

    leaves: Sequence[Leaf] = ()
    notes: Sequence[str] = ()
    numeric: bool = False
    traced: bool = False
    failure: Failure | None = None


@dataclass
class Session:
    """The judge's connection to one worker.

    `seconds` limits the time of all files that are loaded into it together. `say` receives the progress of long probes.
    `ended` is the reason why the worker answers no more requests.
    """

    problem: Problem
    worker: WorkerProcess
    seconds: float
    say: Say = lambda text: None
    isolation: Isolation = NOTHING_RUN
    ended: Failure | None = None
    _clock: Clock | None = None
    _computed: float = 0.0  # by the worker's own imports

    def begin(self) -> None:
        """Waits until the worker is ready. Its own imports do not count toward the time limit. Raises WorkerStartError,
        and CourseError if the problem's own code cannot be imported there."""
        if self._clock:
            return
        self._clock = Clock(START_SECONDS, lambda: START_SECONDS)
        ready = self._exchange(None, "ready")
        if isinstance(ready, Failure):
            reason = (self.worker.close().strip() or ready.sentence()).splitlines()[-1]
            if reason.startswith(_UNSOUND):  # nothing but the course's own code has run
                raise CourseError(reason.removeprefix(_UNSOUND))
            raise WorkerStartError(
                f"The worker of problem {self.problem.label} did not start: {reason}. `grade doctor` checks this "
                "machine."
            )
        self.isolation = Isolation.decode(ready.fields["isolation"])
        self._computed = ready.fields["computed"]  # none of a submission's code has run
        self.restart_clock()

    def load(self, variant: str, submission: Submission, draws: int = 0) -> Failure | None:
        """Asks the worker to import a file under the name `variant`. Returns the reason if that fails.

        `draws` is the seed of Python's and NumPy's own random numbers.
        """
        self.begin()
        fields = {
            "variant": variant,
            "sources": dict(submission.sources),
            "filename": submission.filename,
            "draws": draws,
        }
        answer = self._exchange(Frame("load", fields), "loaded")
        return answer if isinstance(answer, Failure) else None

    def restart_clock(self) -> None:
        """Restarts the time limit. For references only, which may run for days."""
        self._clock = Clock(self.seconds, self._computing)
        self._clock.pause()

    def _computing(self) -> float:
        """Returns the computing time of the worker since it was ready, in seconds."""
        return self.worker.cpu_seconds() - self._computed

    def ask(self, request: Frame | None, *expected: str) -> Frame | Failure:
        """Sends a request and returns the answer, of one of the `expected` kinds. Without a request, returns the next
        answer to the last one."""
        return self._exchange(request, *expected)

    def run(self, request: Frame) -> Outcome:
        """Returns the outcome of a request that a worker answers with numbers."""
        answer = self._exchange(request, "reading")
        return Outcome(failure=answer) if isinstance(answer, Failure) else outcome_of(answer)

    def converse(self, request: Frame, reply: Callable[[Frame], Frame]) -> Outcome:
        """Returns the outcome of a request to a worker that asks questions before it answers with numbers."""
        answer = self._exchange(request, "reading", "question")
        while isinstance(answer, Frame) and answer.kind == "question":
            answer = self._exchange(reply(answer), "reading", "question")
        return Outcome(failure=answer) if isinstance(answer, Failure) else outcome_of(answer)

    def examples(self, page: str) -> list[str] | Failure:
        """Returns a report on each of a page's examples that is false for the file loaded last."""
        answer = self._exchange(Frame("examples", {"page": page}), "examples")
        return answer if isinstance(answer, Failure) else _texts(answer.fields.get("failures"))

    def _exchange(self, frame: Frame | None, *expected: str) -> Frame | Failure:
        if self.ended:
            return self.ended
        clock = self._clock
        assert clock is not None  # noqa: S101  `begin` made it
        clock.go_on()
        try:
            left = max(0.01, clock.deadline - monotonic())
            self.worker.sock.settimeout(left)
            if frame:
                send(self.worker.sock, replace(frame, fields={**frame.fields, "within": left, "of": self.seconds}))
            answer = self._answer(clock)
            if answer.kind in expected:
                return answer
            if answer.kind != "raised":
                raise ChannelError("the answer has the wrong kind")
            failure = failure_from(answer.fields)
            if failure.kind == "timeout":
                failure = self._timeout(failure.frames)
            if failure.kind in ("memory", "timeout"):
                self.ended = failure  # another request would fill the memory again, or use up the time
            return failure
        except DeadlineExceededError:
            self.ended = self._timeout()
        except ChannelClosedError:
            self.ended = self._death()
        except ChannelError as error:
            self.ended = Failure("protocol", message=f"its result is malformed: {error}")
        finally:
            clock.pause()  # until there is another request: meanwhile, the judge may wait for a reference
        return self.ended

    def _timeout(self, frames: Frames = ()) -> Failure:
        if self.worker.killed_for or self.worker.came_near_memory_limit:  # which makes it slow
            reason = (
                self.worker.killed_for or f"it had used up most of its {self.worker.limits.memory >> 20} MiB of memory"
            )
            return Failure(_kind(self.worker), message=f"stopped after {self.seconds:g} s: {reason}", frames=frames)
        computed = self._computing()
        if self._clock and self._clock.starved:
            message = (
                f"no result within {self.seconds * PATIENCE:g} s, in which the machine gave it {computed:.1f} s of "
                "computing; grade again when less else runs"
            )
        elif computed < self.seconds / 2:
            message = (
                f"no result within {self.seconds:g} s, of which it computed for {computed:.1f} s: either it waits for "
                "something, or the machine is busy"
            )
        else:
            message = f"no result within {self.seconds:g} s; is there an infinite loop?"
        return Failure("timeout", message=message, frames=frames)

    def _answer(self, clock: Clock) -> Frame:
        """Returns the next frame other than progress. Once the time is up, only the worker's report on that counts."""
        try:
            answer = self._next_frame(clock)
        except ChannelError as error:
            if not clock.is_up():
                raise
            raise DeadlineExceededError("no answer in time") from error
        if (answer.kind, answer.fields.get("kind")) == ("raised", "timeout") or not clock.is_up():
            return answer
        raise DeadlineExceededError("no answer in time")

    def _next_frame(self, clock: Clock) -> Frame:
        """Returns the next frame other than progress, which goes to `say`."""
        for _ in range(MOST_PROGRESS):
            while not arrives(self.worker.sock, clock.deadline) and not clock.is_up():
                pass  # it has more time
            answer = receive(self.worker.sock, max(clock.deadline, monotonic()) + GRACE_SECONDS)
            if answer.kind != "progress" or not self.problem.long_runs:
                return answer
            self.say(_progress(answer.fields))
        raise ChannelError(f"more than {MOST_PROGRESS} lines of progress")

    def _death(self) -> Failure:
        """Returns the reason why the process ended: the grader killed it, it ran out of memory, or it exited."""
        limit = f"{self.worker.limits.memory >> 20} MiB"
        try:
            code = self.worker.wait(timeout=EXIT_SECONDS)
        except TimeoutExpired:
            return Failure("exit", message="it closed its result channel but kept running")
        if self.worker.killed_for:
            return Failure(_kind(self.worker), message=f"stopped: {self.worker.killed_for}")
        if code in (-6, -7, -11):  # SIGABRT, SIGBUS, SIGSEGV
            if self.worker.came_near_memory_limit:  # XLA ends the process when an allocation fails
                return Failure("memory", message=f"it crashed (signal {-code}), probably out of memory (limit {limit})")
            return Failure("exit", message=f"it crashed (signal {-code}) before returning a result")
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return Failure("exit", message=f"the process exited ({how}) before returning a result; return a value instead")


def _kind(worker: WorkerProcess) -> str:
    """Returns the limit that a worker exceeded or, if it exceeded none, came near: `processes` or `memory`."""
    return "processes" if "processes" in worker.killed_for else "memory"


def probe_frame(variant: str, check: Check, case: Case, mode: Mode, measures: Sequence[str] = ()) -> Frame:
    """Returns the request for a probe. Its bytes are part of the key of a reference output in the cache.

    A submission's worker traces (`trace`) or, if that fails, runs the probe itself (`run`). A reference's worker traces
    it and runs the program like a witness (`both`). `eager` runs it without jit, and `until_nan` also stops at the
    first NaN.
    """
    arrays = {key: value for key, value in case.values.items() if isinstance(value, np.ndarray)}
    shapes = {key: [value.shape, value.dtype] for key, value in case.values.items() if isinstance(value, ArrayShape)}
    scalars = {key: value for key, value in case.values.items() if key not in arrays and key not in shapes}
    fields = {"variant": variant, "probe": check.probe, "options": dict(check.options), "seed": case.seed, "mode": mode,
              "scalars": scalars, "arrays": shapes, "order": list(case.values), "measures": list(measures)}  # fmt: skip
    fields |= {"partner": check.partner} if check.partner else {}
    return Frame("probe", fields, [Leaf(key, str(array.dtype), array) for key, array in arrays.items()])


@dataclass(frozen=True)
class ArrayShape:
    """Stands for an array of a case in a request that must not hold its numbers."""

    shape: tuple[int, ...]
    dtype: str


def read_frame(check: Check, case: Case, leaves: Sequence[Leaf]) -> Frame:
    """Returns the request to turn the outputs of a probe into the leaves to compare."""
    frame = probe_frame("", check, case, "run")
    return Frame("read", frame.fields, [*(replace(leaf, path=CASE + leaf.path) for leaf in frame.leaves), *leaves])


def in_stages(
    check: Check, case: Case, mode: Mode, measures: Sequence[str], ask: Callable[[Stage, Frame], Outcome]
) -> Outcome:
    """Returns the outcome of a check's probe on a case, with the requests before and after it. `ask` sends a request to
    a process."""
    frame, kept, files = probe_frame("", check, case, mode, measures), list[Leaf](), list[Leaf]()
    if check.saved_by:
        saved = ask("saves", probe_frame("", replace(check, probe=check.saved_by, options={}), to_save(case), "run"))
        if saved.failure:
            return saved
        files = [leaf for leaf in saved.leaves if leaf.path.startswith(FILE)]
        kept = [replace(leaf, path=SAVED + leaf.path) for leaf in saved.leaves if not leaf.path.startswith(FILE)]
        # Nothing that the run could be repeated from: no seed, and no array that the first process returned.
        restoring = probe_frame("", check, replace(case, seed=0), "run")
        frame = Frame("probe", restoring.fields, [*restoring.leaves, *files])
    outcome = ask("restores" if check.saved_by else "probes", frame)
    if check.read and not outcome.failure:
        # A worker names its leaves as it likes: none may pass for an array of the case, or an array or file of the
        # other process.
        foreign = (CASE, SAVED, FILE) if check.saved_by else (CASE, SAVED)
        own = [*(leaf for leaf in outcome.leaves if not leaf.path.startswith(foreign)), *files]
        return replace(ask("reads", read_frame(check, case, [*own, *kept])), traced=outcome.traced)
    return outcome


def without_arrays(case: Case) -> Case:
    """Returns the case without the numbers of its arrays, and without the seed, from which its parameters are drawn."""
    values: dict[str, Any] = dict(case.values)
    for key, value in case.values.items():
        if isinstance(value, np.ndarray):
            values[key] = ArrayShape(value.shape, str(value.dtype))
    return replace(case, values=values, seed=0)


def measured(problem: Problem, check: Check) -> list[str]:
    """Returns the names of the measures of a check's program: all that any check on the same run compares."""
    leaves = (other.leaves for other in problem.checks if other.run_key == check.run_key)
    names = sorted({name.removeprefix(PROGRAM) for name in leaves if name.startswith(PROGRAM)})
    placed = ["inputs"] if names and problem.places_inputs else []
    rows = [ROWS + ",".join(problem.row_by_row[check.probe])] if check.probe in problem.row_by_row else []
    return [*names, *placed, *rows]


def notes_of(frame: Frame) -> list[str]:
    """Returns the notes in a worker's frame, made printable: they may come from a submission."""
    return [printable(note)[:300] for note in _texts(frame.fields.get("notes"))]


def outcome_of(frame: Frame) -> Outcome:
    """Returns the outcome that a worker's frame holds. Its texts may come from a submission."""
    if frame.kind == "raised":
        return Outcome(failure=failure_from(frame.fields))
    numeric, traced = (frame.fields.get(key) is True for key in ("numeric", "traced"))
    return Outcome(frame.leaves, notes_of(frame), numeric, traced)


def failure_from(fields: dict[str, Any]) -> Failure:
    """Returns the failure that a worker describes. Its texts may come from the submission: they are shortened and made
    printable."""

    def text(key: str, limit: int) -> str:
        value = fields.get(key)
        return printable(value)[:limit] if isinstance(value, str) else ""

    frames = []
    rows = fields.get("frames")
    for row in rows[:8] if isinstance(rows, list) else []:
        if isinstance(row, list) and [type(part) for part in row] == [str, int, str, str]:
            frames.append((printable(row[0])[:100], row[1], printable(row[2])[:100], printable(row[3])[:200]))
    kind = text("kind", 20)
    kind = kind if kind in _WORKER_KINDS else "raised"
    message = _without_course_files(text("message", 1000))
    return Failure(kind, text("type", 100), message, tuple(frames), text("caret", 200), text("remedy", 300))


def _without_course_files(message: str) -> str:
    """Returns a message of JAX without the sentences that name files of the course or of packages, where the error is
    not."""
    folders = [str(path) for path in (ROOT / "grader", ROOT / "problems", selected().root / "problems")]
    folders.append("site-packages")
    if not any(folder in message for folder in folders):
        return message
    sentences = re.split(r"(?<=[.!?])\s+", message)
    return " ".join(sentence for sentence in sentences if not any(folder in sentence for folder in folders))


def _progress(fields: dict[str, Any]) -> str:
    """Returns the progress of a long run, in words of the grader around the worker's numbers. Raises ChannelError."""
    match fields:
        case {"step": int(step), "steps": int(steps), "loss": float(loss)} if 0 <= step <= steps <= MOST_STEPS:
            return f"training: step {step:d} of {steps:d}, loss {loss:.3g}"
    raise ChannelError("its progress is malformed")


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)][:20] if isinstance(value, list) else []
