"""Reference outputs: the outcomes of the reference, plain or with a misconception, on a case. Cached on disk."""

from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Protocol

from grader.course import catalog
from grader.errors import CourseError
from grader.isolation.job import Limits
from grader.isolation.sandbox import Workers
from grader.judge import cache
from grader.judge.session import Failure, Outcome, Session, in_stages, measured, outcome_of, probe_frame, run_key
from grader.judge.submission import Submission, job, reference
from grader.problem import Case, Check, Problem
from grader.wire.channel import Frame, encode

SECONDS = 3600.0  # the reference is trusted; this limit only stops an author's mistakes
LIMITS = Limits(memory=8 << 30)  # one worker holds the compiled programs of all misconceptions
# For an output that another process computes. That process may be suspended, or the disk may not know locks.
WAIT_SECONDS, WAIT_INTERVAL = 1.0, 0.01


class Answers(Protocol):
    """A source of reference outputs: the reference itself, or recordings of its outputs.

    `misconceptions` are by variant: the name under which `ask` runs the reference with that misconception. `together` returns
    the variant with two of them, or None if both edit the same place.
    """

    @property
    def misconceptions(self) -> Mapping[str, catalog.Misconception]: ...
    @property
    def can_shrink(self) -> bool: ...
    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]: ...
    def is_known(self, check: Check, case: Case) -> bool: ...
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


class Reference:
    """Reference outputs of one problem. A worker is started when an output is not in the cache, and one thread talks to it.

    Processes that need the same outputs at the same time, as in a batch, divide them: what another one is computing comes last.
    While `keep` is false, new outputs are not written to the cache.
    """

    can_shrink = True

    def __init__(self, problem: Problem, workers: Workers) -> None:
        self.problem = problem
        self._workers = workers
        self._plain = reference(problem)
        source = self._plain.sources[problem.name]
        # Each form of each misconception is a variant of the reference; "" is the reference itself.
        self._variants = {"": source}
        self.misconceptions: dict[str, catalog.Misconception] = {}
        for misconception in catalog.misconceptions(problem):
            for variant, text in misconception.variants(source).items():
                self._variants[variant], self.misconceptions[variant] = text, misconception
        self._definition = definition(problem)
        self._session: Session | None = None
        self.keep = True
        self._closed = False
        self._loaded: dict[str, Outcome | None] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reference")
        self._answers: dict[tuple[str, str, Case], Future[Outcome]] = {}
        self._waiting: deque[_Asked] = deque()
        self._shares = True  # until it has waited in vain

    def ask(self, check: Check, case: Case, variant: str = "") -> Future[Outcome]:
        """The future outcome of a check's probe on a case. `variant` is a key of `misconceptions`, or empty."""
        key = (variant, run_key(check), case)
        if key not in self._answers:
            asked = _Asked(check, case, variant, self._cache_key(check, case, variant))
            self._answers[key] = asked.future
            self._waiting.append(asked)
            self._thread.submit(self._answer_next)
        return self._answers[key]

    def is_known(self, check: Check, case: Case) -> bool:
        """Whether an output has been computed, now or for an earlier submission."""
        answer = self._answers.get(("", run_key(check), case))
        return (answer is not None and answer.done()) or cache.has(self._cache_key(check, case, ""))

    def together(self, first: str, second: str) -> str | None:
        """A new variant with the edits of two variants; None if their edits overlap."""
        source, name = self._variants[""], f"{first}, and {second}"
        edits = []
        for variant in (first, second):
            find = self.misconceptions[variant].find
            start = source.index(find)
            length = len(self._variants[variant]) - len(source) + len(find)
            edits.append((start, start + len(find), self._variants[variant][start : start + length]))
        (start, end, text), (next_start, next_end, next_text) = sorted(edits)
        if next_start < end:
            return None
        self._variants[name] = source[:start] + text + source[end:next_start] + next_text + source[next_end:]
        return name

    def cancel(self, check: Check, case: Case) -> None:
        """Cancels an output that is no longer needed, if its computation has not started."""
        key = ("", run_key(check), case)
        if key in self._answers and self._answers[key].cancel():
            del self._answers[key]

    def examples(self, page: str) -> list[str]:
        """A report on each of the page's examples that is false."""

        def run() -> list[str]:
            self._load("")
            # A page may import earlier problems.
            imported = catalog.with_imports("page", page.replace(">>> ", ""), catalog.references(self.problem))
            sources = {name: text for name, text in imported.items() if name != "page"} | dict(self._plain.sources)
            failure = self._require_session().load("page", Submission(self._plain.filename, sources))
            reports = failure or self._require_session().examples(page)
            return reports if isinstance(reports, list) else [reports.sentence()]

        return self._thread.submit(run).result()

    def submission(self, variant: str = "") -> Submission:
        """The reference, or a variant of it, as a submission."""
        sources = {**self._plain.sources, self.problem.name: self._variants[variant]}
        return Submission(self._plain.filename, sources)

    def start(self) -> None:
        """Starts the worker now, so that an output that is not in the cache need not wait for its imports."""
        self._thread.submit(self._load, "")

    def forget(self, cases: Iterable[Case]) -> None:
        """Drops the outputs in memory that are not of these cases: smaller cases are made again for every submission."""
        kept = set(cases)
        self._answers = {key: answer for key, answer in self._answers.items() if key[2] in kept or not answer.done()}

    def close(self) -> None:
        """Kills the worker and cancels what is still to be computed."""
        self._closed = True
        if self._session:
            self._session.worker.close()  # the thread that waits for its answer fails at once
        self._thread.shutdown(cancel_futures=True)
        for asked in self._waiting:
            asked.future.cancel()
        if self._session:
            self._session.worker.close()

    def _cache_key(self, check: Check, case: Case, variant: str) -> str:
        how = [check.saved_by, str(check.read)]
        frame = probe_frame("", check, case, "both", measured(self.problem, check))
        parts = (part for item in sorted(self.submission(variant).sources.items()) for part in item)
        return cache.digest([cache.environment(), *self._definition, *parts, *how, encode(frame)])

    def _answer_next(self) -> None:
        """Answers a request that no other process is working on; any if there is none. Variants that it has traced come first."""
        start = monotonic()
        while True:
            for asked in sorted(self._waiting, key=lambda asked: asked.variant not in self._loaded):
                if self._answered(asked):
                    self._waiting.remove(asked)
                    return
            sleep(WAIT_INTERVAL)
            self._shares = monotonic() - start < WAIT_SECONDS

    def _answered(self, asked: _Asked) -> bool:
        """Answers a request, unless another process is working on it and shares what it computes."""
        release = cache.claim(asked.key) if self._shares else None
        if self._shares and release is None and not cache.has(asked.key):
            return False
        try:
            if asked.future.set_running_or_notify_cancel():
                asked.future.set_result(self._answer(asked))
        except BaseException as error:
            asked.future.set_exception(error)
        finally:
            if release:
                release()
        return True

    def _answer(self, asked: _Asked) -> Outcome:
        check, case, variant = asked.check, asked.case, asked.variant
        cached = cache.read(asked.key)
        if cached:
            return outcome_of(cached)
        measures, failed = measured(self.problem, check), self._load(variant)
        outcome = failed or in_stages(
            check, case, "both", measures,
            lambda stage, frame: self._require_session().run(_with_variant(frame, variant)),
        )  # fmt: skip
        if self._closed:
            return outcome
        if not variant and outcome.failure:
            raise CourseError(f"The reference of problem {self.problem.label} fails: {outcome.failure.sentence()}")
        if self.keep and not self._require_session().ended:
            cache.write(asked.key, frame_of(outcome))
        return outcome

    def _load(self, variant: str) -> Outcome | None:
        if self._session and self._session.ended:
            # A misconception may crash the process. The next one needs a new process.
            self._session.worker.close()
            self._session, self._loaded = None, {}
        if self._closed:
            return Outcome(failure=Failure("exit", message="the reference worker is closed"))
        if self._session is None:
            self._session = Session(self.problem, self._workers.worker(job(self.problem, LIMITS)), SECONDS)
        if self._loaded:
            self._session.restart_clock()
        if variant not in self._loaded:
            failure = self._session.load(variant, self.submission(variant))
            self._loaded[variant] = Outcome(failure=failure) if failure else None
        return self._loaded[variant]

    def _require_session(self) -> Session:
        assert self._session is not None  # noqa: S101  _load made it
        return self._session


def definition(problem: Problem) -> list[str]:
    """The code of a problem that decides its numbers."""
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
    """The frame in which a worker sends this outcome."""
    failure = outcome.failure
    if failure is None:
        fields = {"notes": list(outcome.notes), "numeric": outcome.numeric, "traced": outcome.traced}
        return Frame("reading", fields, outcome.leaves)
    fields = {"kind": failure.kind, "type": failure.type, "message": failure.message}
    return Frame("raised", {**fields, "frames": [list(frame) for frame in failure.frames], "caret": failure.caret})


def _with_variant(frame: Frame, variant: str) -> Frame:
    return Frame(frame.kind, {**frame.fields, "variant": variant}, frame.leaves)
