"""Reference outputs: the outcomes of the reference, plain or with a misconception, on a case. Cached on disk."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from threading import Lock
from time import monotonic, sleep
from typing import Protocol

from grader.course import catalog, imports
from grader.errors import CourseError
from grader.isolation.job import Limits
from grader.isolation.sandbox import Workers
from grader.judge import cache
from grader.judge.submission import Submission, job, reference
from grader.judge.worker_session import Failure, Outcome, Session, in_stages, measured, outcome_of, probe_frame
from grader.problem import Case, Check, Problem
from grader.wire.channel import Frame, encode

SECONDS = 3600.0  # the reference is trusted; this limit only stops an author's mistakes
LIMITS = Limits(memory=8 << 30)  # one worker holds the compiled programs of all misconceptions
# For an output that another process computes. That process may be suspended, or the disk may not know locks.
WAIT_SECONDS, WAIT_INTERVAL = 1.0, 0.01
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")  # all of a text


class Answers(Protocol):
    """A source of reference outputs: the reference itself, or recordings of its outputs.

    `misconceptions` are by variant: the name under which `ask` runs the reference with that misconception. `suspects`
    are the variants that a program's text resembles more than it resembles the reference, the most alike first.
    `together` returns the variant with two misconceptions, or None if both edit the same words. `at_once` is the number
    of outputs that it computes at a time.
    """

    at_once: int

    @property
    def misconceptions(self) -> Mapping[str, catalog.Misconception]: ...
    @property
    def can_shrink(self) -> bool: ...
    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]: ...
    def is_known(self, check: Check, case: Case, variant: str = "") -> bool: ...
    def suspects(self, text: str) -> Sequence[str]: ...
    def together(self, first: str, second: str) -> str | None: ...
    def cancel(self, check: Check, case: Case) -> None: ...
    def start(self) -> None: ...
    def forget(self, cases: Iterable[Case]) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, eq=False)
class _Asked:
    """An output that was asked for, with its key in the cache."""

    check: Check
    case: Case
    variant: str
    key: str
    future: Future[Outcome] = field(default_factory=Future)


class ReferenceWorker:
    """A worker for variants of the reference, started when there is one to load, and the thread that talks to it."""

    def __init__(self, problem: Problem, workers: Workers) -> None:
        self.loaded: dict[str, Outcome | None] = {}
        self.busy = False
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="reference")
        self._problem, self._workers = problem, workers
        self._session: Session | None = None
        self._closed = False

    @property
    def session(self) -> Session:
        """The connection to the worker, once a variant has been loaded."""
        assert self._session is not None  # noqa: S101  load made it
        return self._session

    def load(self, variant: str, submission: Submission) -> Outcome | None:
        """Loads a variant, unless it is loaded. Returns the outcome of all its probes if that fails."""
        if self._session and self._session.ended:
            self.end()  # a misconception may crash the process
        if self._closed:
            return Outcome(failure=Failure("exit", message="the reference worker is closed"))
        if self._session is None:
            self._session = Session(self._problem, self._workers.worker(job(self._problem, LIMITS)), SECONDS)
        if self.loaded:
            self._session.restart_clock()
        if variant not in self.loaded:
            failure = self._session.load(variant, submission)
            self.loaded[variant] = Outcome(failure=failure) if failure else None
        return self.loaded[variant]

    def end(self) -> None:
        """Ends the worker, until a variant is to be loaded. For its own thread."""
        if self._session:
            self._session.worker.close()
            self._session, self.loaded = None, {}

    def close(self) -> None:
        """Kills the worker at once, for good."""
        self._closed = True
        if self._session:
            self._session.worker.close()  # the thread that waits for its answer fails at once
        self.thread.shutdown(cancel_futures=True)
        if self._session:
            self._session.worker.close()


class Reference:
    """The reference outputs of one problem. Starts a worker when an output is not in the cache.

    Processes that need the same outputs at the same time, as in a batch, divide them: an output that another process is
    computing comes last. With `at_once` workers, misconceptions are also divided among these. While `keep` is false,
    new outputs are not written to the cache.
    """

    can_shrink = True

    def __init__(self, problem: Problem, workers: Workers, at_once: int = 1) -> None:
        self.problem = problem
        self.at_once = at_once
        self._plain = reference(problem)
        source = self._plain.sources[problem.name]
        # Each form of each misconception is a variant of the reference; "" is the reference itself.
        self._variants = {"": source}
        self.misconceptions: dict[str, catalog.Misconception] = {}
        for misconception in catalog.misconceptions(problem):
            for variant, text in misconception.variants(source).items():
                self._variants[variant], self.misconceptions[variant] = text, misconception
        self._definition = definition(problem)
        self.keep = True
        self._closed = False
        self._workers = [ReferenceWorker(problem, workers) for _ in range(at_once)]
        self._answers: dict[tuple[str, str, Case], Future[Outcome]] = {}
        self._waiting: list[_Asked] = []
        self._choosing = Lock()
        self._shares = True  # until it has waited in vain

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        """Returns the future outcome of a check's probe on a case. `variant` is a key of `misconceptions`, or empty."""
        key = (variant, check.run_key, case)
        if key not in self._answers:
            asked = _Asked(check, case, variant, self._cache_key(check, case, variant))
            self._answers[key] = asked.future
            self._waiting.append(asked)
            for worker in self._workers if variant else self._workers[:1]:
                worker.thread.submit(self._answer_next, worker)
        return self._answers[key]

    def is_known(self, check: Check, case: Case, variant: str = "") -> bool:
        """Returns whether an output has been computed, now or for an earlier submission."""
        answer = self._answers.get((variant, check.run_key, case))
        return (answer is not None and answer.done()) or cache.has(self._cache_key(check, case, variant))

    def suspects(self, text: str) -> Sequence[str]:
        """Returns the variants that a program's text resembles more than it resembles the reference, the most alike
        first."""
        own = _sequences(text)
        plain = len(own ^ _sequences(self._variants[""]))
        nearer = {name: len(own ^ _sequences(self._variants[name])) - plain for name in self.misconceptions}
        return sorted((name for name in nearer if nearer[name] < 0), key=nearer.__getitem__)

    def together(self, first: str, second: str) -> str | None:
        """Returns a new variant with the edits of two variants; None if both edit the same words."""
        source, name = self._variants[""], f"{first}, and {second}"
        edits = sorted(edit for variant in (first, second) for edit in self._edits(variant))
        if any(start < end or start == earlier for (earlier, end, _), (start, _, _) in pairwise(edits)):
            return None
        place, parts = 0, list[str]()
        for start, end, text in edits:
            parts += [source[place:start], text]
            place = end
        self._variants[name] = "".join([*parts, source[place:]])
        return name

    def _edits(self, variant: str) -> Iterator[tuple[int, int, str]]:
        """Yields the places of the reference that a variant edits, word by word, each with the new text."""
        source, find = self._variants[""], self.misconceptions[variant].find
        start = source.index(find)
        length = len(self._variants[variant]) - len(source) + len(find)
        old, new = (_WORDS.findall(text) for text in (find, self._variants[variant][start : start + length]))
        places = list(accumulate(map(len, old), initial=start))
        for kind, i, j, m, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind != "equal":
                yield places[i], places[j], "".join(new[m:n])

    def cancel(self, check: Check, case: Case) -> None:
        """Cancels an output that is no longer needed, if its computation has not started."""
        key = ("", check.run_key, case)
        if key in self._answers and self._answers[key].cancel():
            del self._answers[key]

    def examples(self, page: str) -> list[str]:
        """Returns a report on each of the page's examples that is false."""
        worker = self._workers[0]

        def run() -> list[str]:
            worker.load("", self._plain)
            # A page may import earlier problems.
            imported = imports.with_imports("page", page.replace(">>> ", ""), catalog.references(self.problem))
            sources = {name: text for name, text in imported.items() if name != "page"} | dict(self._plain.sources)
            failure = worker.session.load("page", Submission(self._plain.filename, sources))
            reports = failure or worker.session.examples(page)
            return reports if isinstance(reports, list) else [reports.sentence()]

        return worker.thread.submit(run).result()

    def submission(self, variant: str = "") -> Submission:
        """Returns the reference, or a variant of it, as a submission."""
        sources = {**self._plain.sources, self.problem.name: self._variants[variant]}
        return Submission(self._plain.filename, sources)

    def start(self) -> None:
        """Starts the worker now, so that an output that is not in the cache need not wait for its imports."""
        first = self._workers[0]
        first.thread.submit(first.load, "", self._plain)

    def forget(self, cases: Iterable[Case]) -> None:
        """Drops the outputs in memory that are not of these cases. The smaller cases of a failure are drawn for one
        submission only.

        Also ends all workers but the first, because the others are needed only for many misconceptions.
        """
        kept = set(cases)
        self._answers = {key: answer for key, answer in self._answers.items() if key[2] in kept or not answer.done()}
        with suppress(RuntimeError):  # it is being closed
            for worker in self._workers[1:]:
                worker.thread.submit(worker.end)

    def close(self) -> None:
        """Kills the workers and cancels the waiting requests."""
        self._closed = True
        for worker in self._workers:
            worker.close()
        for asked in self._waiting:
            asked.future.cancel()

    def _cache_key(self, check: Check, case: Case, variant: str) -> str:
        how = [check.saved_by, str(check.read)]
        frame = probe_frame("", check, case, "both", measured(self.problem, check))
        parts = (part for item in sorted(self.submission(variant).sources.items()) for part in item)
        return cache.digest([cache.environment(), *self._definition, *parts, *how, encode(frame)])

    def _answer_next(self, worker: ReferenceWorker) -> None:
        """Answers a waiting request that no other process is working on; any request if there is none. Variants that
        this worker has traced come first."""
        start = monotonic()
        while True:
            with self._choosing:
                chosen = self._choose(worker)
            if chosen:
                break
            if not self._waiting or worker is not self._workers[0]:
                return
            sleep(WAIT_INTERVAL)
            self._shares = monotonic() - start < WAIT_SECONDS
        asked, release = chosen
        try:
            if asked.future.set_running_or_notify_cancel():
                outcome = self._answer(asked, worker)
                worker.busy = False  # before anyone hears of it, and asks for more
                asked.future.set_result(outcome)
        except BaseException as error:
            asked.future.set_exception(error)
        finally:
            worker.busy = False
            release()

    def _choose(self, worker: ReferenceWorker) -> tuple[_Asked, Callable[[], None]] | None:
        """Takes a waiting request that no other process is working on. Returns it with a function that ends the claim
        on it.

        Workers other than the first take only misconceptions, and only if another one is waiting or being computed.
        """
        first = self._workers[0]
        possible = [asked for asked in self._waiting if worker is first or asked.variant]
        if worker is not first and len(possible) < 2 and not first.busy:
            return None
        for asked in sorted(possible, key=lambda asked: asked.variant not in worker.loaded):
            release = cache.claim(asked.key) if self._shares else None
            if release or not self._shares or cache.has(asked.key):
                self._waiting.remove(asked)
                worker.busy = True
                return asked, release or (lambda: None)
        return None

    def _answer(self, asked: _Asked, worker: ReferenceWorker) -> Outcome:
        check, case, variant = asked.check, asked.case, asked.variant
        cached = cache.read(asked.key)
        if cached:
            return outcome_of(cached)
        measures, failed = measured(self.problem, check), worker.load(variant, self.submission(variant))
        outcome = failed or in_stages(
            check, case, "both", measures,
            lambda stage, frame: worker.session.run(_with_variant(frame, variant)),
        )  # fmt: skip
        if self._closed:
            return outcome
        if not variant and outcome.failure:
            raise CourseError(f"The reference of problem {self.problem.label} fails: {outcome.failure.sentence()}")
        if self.keep and not worker.session.ended:
            cache.write(asked.key, frame_of(outcome))
        return outcome


def _sequences(text: str) -> frozenset[tuple[str, ...]]:
    """Returns the sequences of three tokens of a text."""
    tokens = _TOKEN.findall(text)
    return frozenset(zip(tokens, tokens[1:], tokens[2:], strict=False))


def definition(problem: Problem) -> list[str]:
    """Returns the code of a problem that decides its numbers."""
    return [path.read_text() for path in sorted(problem.folder.glob("*.py")) if path.name != "stub.py"]


def prefetch(reference: Answers, checks: Iterable[Check], cases: dict[str, list[Case]]) -> None:
    """Starts to compute the reference outputs, while the submission's worker still does its imports."""
    for check in checks:
        for case in cases[check.cases]:
            reference.ask(check, case)


def cancel_all(reference: Answers, checks: Iterable[Check], cases: dict[str, list[Case]]) -> None:
    """Cancels the prefetched outputs whose computation has not started."""
    for check in checks:
        for case in cases[check.cases]:
            reference.cancel(check, case)


def frame_of(outcome: Outcome) -> Frame:
    """Returns the frame in which a worker sends this outcome."""
    failure = outcome.failure
    if failure is None:
        fields = {"notes": list(outcome.notes), "numeric": outcome.numeric, "traced": outcome.traced}
        return Frame("reading", fields, outcome.leaves)
    fields = {"kind": failure.kind, "type": failure.type, "message": failure.message, "remedy": failure.remedy}
    return Frame("raised", {**fields, "frames": [list(frame) for frame in failure.frames], "caret": failure.caret})


def _with_variant(frame: Frame, variant: str) -> Frame:
    return Frame(frame.kind, {**frame.fields, "variant": variant}, frame.leaves)
