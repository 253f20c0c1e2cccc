"""The two processes that grade a submission: its worker, which traces its code, and a witness, which runs the programs.

Neither is trusted to report on itself. The worker gets no array of a case, unless its code cannot be traced. The
witness never runs the submission's Python. Equal programs are run once on a case: the cache holds a witness's outputs
for them.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from grader.isolation.job import Job
from grader.isolation.level import Isolation
from grader.isolation.sandbox import Workers
from grader.judge import cache, forbidden_names, nondeterminism
from grader.judge.reference import definition, frame_of
from grader.judge.submission import Submission
from grader.judge.worker_session import (
    Failure,
    Outcome,
    Say,
    Session,
    Stage,
    in_stages,
    measured,
    notes_of,
    outcome_of,
    probe_frame,
    without_arrays,
)
from grader.problem import Case, Check, Problem
from grader.wire.channel import Frame, encode
from grader.wire.program import FILE, request


@dataclass
class Examiner:
    """Grades one submission of `problem` by probes. `seconds` limits the time of its worker, and that of its
    witness."""

    problem: Problem
    fork_server: Workers
    job: Job
    seconds: float
    say: Say = lambda text: None
    _witness: Session | None = None
    _history: dict[str, None] = field(default_factory=dict)
    _refusals: dict[tuple[str, ...], Failure | None] = field(default_factory=dict)
    _told: set[Case] = field(default_factory=set)  # cases whose numbers the worker knows
    _saved: dict[Any, Outcome] = field(default_factory=dict)
    _programs: dict[Any, Frame | Failure] = field(default_factory=dict)
    _traced: list[tuple[Frame, Frame | Failure]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._definition = definition(self.problem)  # it makes inputs and measures
        self.worker = Session(self.problem, self.fork_server.worker(self.job), self.seconds, self.say)

    @property
    def isolation(self) -> Isolation:
        return self.worker.isolation

    def load(self, submission: Submission) -> Failure | None:
        """Imports the submission. Returns the reason if that fails."""
        self.submission = submission
        return self.worker.load("", submission)

    def start_witness(self) -> Session:
        """Starts the witness now, so that the first program need not wait for it."""
        self._witness = Session(self.problem, self.fork_server.worker(self.job), self.seconds)
        return self._witness

    def probe(self, check: Check, case: Case) -> Outcome:
        """Returns the outcome of a check's probe on a case."""
        entries = forbidden_names.entries(self.problem, check)
        if entries not in self._refusals:
            self._refusals[entries] = forbidden_names.refusal(self.problem, self.submission, check)
        if refusal := self._refusals[entries]:
            return Outcome(failure=refusal)
        return in_stages(check, case, "run", (), lambda stage, frame: self._ask(stage, frame, check, case))

    def is_unstable(self) -> bool:
        """Returns whether the submission depends on the time or on random numbers; see `nondeterminism`."""
        if not nondeterminism.may_be(self.submission) or self.worker.ended or not self._traced:
            return False
        fresh = Session(self.problem, self.fork_server.worker(self.job), self.seconds)
        try:
            return nondeterminism.differs(self.submission, fresh, self._traced)
        finally:
            fresh.worker.close()

    def close(self) -> str:
        """Kills both processes. Returns the output that the worker printed."""
        if self._witness:
            self._witness.worker.close()
        return self.worker.worker.close()

    def _ask(self, stage: Stage, frame: Frame, check: Check, case: Case) -> Outcome:
        if stage == "saves":
            key = (check.saved_by, case)
            if key not in self._saved:
                self._trace_all(case)
                self._told.add(case)
                self._saved[key] = self.worker.run(frame)
            return self._saved[key]
        if stage == "restores":
            return self._in_fresh_process(frame)
        if stage == "reads":
            holds_files = any(leaf.path.startswith(FILE) for leaf in frame.leaves)
            return self._in_fresh_process(frame, load=False) if holds_files else self._by_witness(frame)
        return self._probe(frame, check, case)

    def _in_fresh_process(self, frame: Frame, *, load: bool = True) -> Outcome:
        """Returns the outcome of a request to a new process, which loads the submission first if `load`."""
        fresh = Session(self.problem, self.fork_server.worker(self.job), self.seconds, self.say)
        try:
            fresh.begin()
            failure = fresh.load("", self.submission) if load else None
            return Outcome(failure=failure) if failure else replace(fresh.run(frame), traced=False)
        finally:
            fresh.worker.close()

    def _probe(self, frame: Frame, check: Check, case: Case) -> Outcome:
        program = Frame("untraceable", {"notes": []}) if _needs_numbers(check) else self._program(check, case)
        if isinstance(program, Failure):
            return Outcome(failure=program)
        if program.kind == "untraceable":
            notes = notes_of(program)
            if check.measures or (notes and check.traced):
                return Outcome(notes=notes)
            # The worker does not need the numbers for a check that only a program can pass.
            blind = probe_frame("", check, without_arrays(case), "run")
            if check.partner:
                return self._with_partner(blind, replace(frame, kind="partner"))
            if not check.traced:
                self._trace_all(case)
                self._told.add(case)
            before = self.worker.worker.cpu_seconds() if check.cpu_seconds else 0.0
            # A program would compute in the witness, whose time is not measured.
            kinds = ("reading",) if check.cpu_seconds else ("reading", "program")
            answer = self.worker.ask(blind if check.traced else frame, *kinds)
            if check.cpu_seconds and self.worker.worker.cpu_seconds() - before > check.cpu_seconds:
                return Outcome(failure=_slow(check))
            if isinstance(answer, Failure):
                return Outcome(failure=answer)
            if answer.kind == "reading":
                return replace(outcome_of(answer), traced=False)
            # It takes what the worker computed. One that knew the numbers may have put the results into it.
            return replace(self._run(answer, check, case), traced=case not in self._told)
        return self._run(program, check, case)

    def _with_partner(self, frame: Frame, partner: Frame) -> Outcome:
        """Returns the outcome of a probe that asks its partner, which runs in the witness. The arrays of the partner
        come from the witness only."""
        witness = self._sound_witness()
        begun = witness.ask(partner, "loaded")
        if isinstance(begun, Failure):
            return Outcome(failure=begun)

        def reply(question: Frame) -> Frame:
            answer = witness.ask(Frame("question", {"question": question.fields.get("question")}), "answer")
            return Frame("answer", {"refused": answer.sentence()}) if isinstance(answer, Failure) else answer

        outcome, recorded = self.worker.converse(frame, reply), witness.run(Frame("recorded"))
        if outcome.failure or recorded.failure:
            return outcome if outcome.failure else recorded
        known = {leaf.path for leaf in recorded.leaves}
        own = [leaf for leaf in outcome.leaves if leaf.path not in known]
        return replace(outcome, leaves=[*own, *recorded.leaves], traced=False)

    def _program(self, check: Check, case: Case) -> Frame | Failure:
        """Returns the program of a probe. Cases with the same sizes have the same one."""
        frame = probe_frame("", check, without_arrays(case), "trace")
        key = (check.run_key, encode(frame))
        if key not in self._programs:
            self._programs[key] = self.worker.ask(frame, "program", "untraceable")
            self._traced.append((frame, self._programs[key]))
        return self._programs[key]

    def _trace_all(self, case: Case) -> None:
        """Traces all programs of a case before the worker gets its numbers: a program that is traced later could
        contain results."""
        for check in self.problem.checks:
            if check.cases == case.group and not check.saved_by and not _needs_numbers(check):
                self._program(check, case)

    def _run(self, program: Frame, check: Check, case: Case) -> Outcome:
        """Returns the outcome of a program on a case, from the cache or from the witness.

        A witness that ran another program before could have been changed by it. So the key names the submission's other
        programs up to now, and no submission can change the results of a program that it does not hold itself.
        """
        frame = request(program, dict(case.values), case.seed, measured(self.problem, check))
        this = cache.digest([encode(Frame("program", leaves=program.leaves))])
        others = [digest for digest in self._history if digest != this]
        self._history[this] = None
        devices = str(self.job.devices)
        key = cache.digest(["witness", cache.environment(), *self._definition, devices, *others, encode(frame)])
        stored = cache.read(key)
        outcome = outcome_of(stored) if stored else self._by_witness(frame)
        if not stored and self._witness and not self._witness.ended:
            cache.write(key, frame_of(outcome))
        return outcome if outcome.failure else replace(outcome, notes=notes_of(program))

    def _by_witness(self, frame: Frame) -> Outcome:
        """Returns the outcome of a request to the witness.

        On a busy machine, XLA crashes in a few of many thousand runs. A program that crashes it does so again.
        """
        witness = self._sound_witness()
        outcome = witness.run(frame)
        if outcome.failure and outcome.failure.kind == "exit" and witness.ended:
            witness = self._sound_witness()
            outcome = witness.run(frame)
        if not (outcome.failure and witness.ended):
            return outcome
        failure = _of_program(outcome.failure)
        if failure.kind == "timeout":
            self.worker.ended = failure  # the time is that of all programs together
        return Outcome(failure=failure)

    def _sound_witness(self) -> Session:
        """Returns the witness. Replaces one that has ended."""
        witness = self._witness
        if witness and witness.ended:
            witness.worker.close()
            witness = None
        witness = witness or self.start_witness()
        witness.begin()
        return witness


def _needs_numbers(check: Check) -> bool:
    """Returns whether a check accepts numbers only: a program would run where its time is not measured, and could not
    ask the partner.

    Such a check is not traced either, because the worker would learn about a case before its time is measured.
    """
    return bool(check.cpu_seconds or check.partner)


def _slow(check: Check) -> Failure:
    """Returns the failure of a worker that exceeded the computing time of a check, whatever the worker itself
    reported."""
    return Failure("bad_output", message=f"it takes more than {check.cpu_seconds:g} s of computing in all")


def _of_program(failure: Failure) -> Failure:
    """Returns the failure to show to the learner if the witness ended."""
    if failure.kind in ("memory", "timeout", "processes"):
        return failure
    return Failure("refused", message=f"XLA cannot run the program that your code is traced to: {failure.message}")
