"""Grades one submission: sends cases to its worker and to the reference, and compares the numbers that come back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic

from grader.course import cases as cases_
from grader.course import catalog, imports
from grader.course.catalog import Misconception
from grader.isolation.sandbox import Workers
from grader.judge import blocked, bundled_outputs, fault, nondeterminism, passes, rerun
from grader.judge import submission as submission_
from grader.judge.blocked import not_judged, without_consequences
from grader.judge.counterexample import MOST_LEAVES, Counterexample, Part, compared
from grader.judge.diagnose import BAD_ENTRY, Diagnosis, Evidence, diagnose, tolerance_for
from grader.judge.examiner import Examiner
from grader.judge.fault import Finding
from grader.judge.options import GradeOptions
from grader.judge.public_errors import own_errors
from grader.judge.reference import Answers, cancel_all, prefetch
from grader.judge.stdout import without_logs
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.judge.worker_session import Failure, Outcome, Say
from grader.problem import Case, Check, Difference, Problem
from grader.wire.compare import Leaf, Mismatch, compare, error, first_nan, on_page, select, to_be_equal, values
from grader.wire.relation import relation, right_part

SHRINK_SECONDS = 1.5
# Of a file written like the reference, the idea is the first of these; of a file in another style, often none is.
MOST_SUSPECTS = 4

Probe = Callable[[Check, Case], Outcome]
CasesByGroup = dict[str, list[Case]]


@dataclass(frozen=True)
class Shared:
    """The results that a caller keeps between several submissions to a problem, so that they are computed once.

    Attributes:
        reference: The answers of the reference.
        cases: The cases of the seed in `GradeOptions`, by group.
    """

    reference: Answers | None = None
    cases: CasesByGroup | None = None


@dataclass(frozen=True)
class Listener:
    """The callbacks of a grading while it runs.

    Attributes:
        say: Receives progress in words.
        on_check: Receives each result as soon as it is known. Its failing case may not be the smallest yet.
    """

    say: Say = lambda text: None
    on_check: Callable[[CheckResult], None] = lambda result: None


@dataclass
class Comparison:
    """Compares a program's outcomes with the reference's on the cases of one seed. Keeps the evidence for
    `misconception`.

    If the program's `text` is given, the misconceptions that it resembles are tried first.
    """

    problem: Problem
    reference: Answers
    probe: Probe
    seed: int
    cases: CasesByGroup
    text: str = ""
    evidence: list[Evidence] = field(default_factory=list)
    _outcomes: dict[tuple[str, Case], Outcome] = field(default_factory=dict)

    def results(self) -> list[CheckResult]:
        """Returns the result of every check."""
        return [self.judge(check) for check in self.problem.checks]

    def first_failure(self) -> CheckResult | None:
        """Returns the first check that fails. The checks after it are not run."""
        return next((result for result in map(self.judge, self.problem.checks) if not result.passed), None)

    def misconception(self) -> Misconception | None:
        """Returns the misconception that reproduces the program's wrong outcomes, or two together, if there is one."""
        found = self.diagnosis()
        return found.misconception if found else None

    def diagnosis(self) -> Diagnosis | None:
        """Returns the same, with the variant of the reference that has it."""
        # Two ideas may give the same numbers with another seed.
        suspects = self.reference.suspects(self.text)[:MOST_SUSPECTS] if self.text and self.seed == 0 else ()
        if not self.problem.long_runs:
            found = diagnose(self.reference, self.evidence, suspects=suspects)
            if found and (second := self._second_look()):
                self.evidence.append(second)
                found = diagnose(self.reference, self.evidence, suspects=suspects)
            return found
        # Each answer takes a training run, so only the cases of the first failure are evidence, and no pairs are tried.
        first = next(item for item in self.evidence if item.wrong)
        evidence = [item for item in self.evidence if item.case.group == first.case.group]
        return diagnose(self.reference, evidence, most_pairs=0, suspects=suspects)

    def _second_look(self) -> Evidence | None:
        """Returns the first failing check on a case of other sizes, unless a check that fails has seen sizes that
        differ as much.

        On one case, two ideas may give the same number: with D = 2, 3 (D² + D) is 4 D² + D.
        """
        failures = [item for item in self.evidence if item.wrong and item.judged]
        first = next((item for item in failures if not item.outcome.failure), None)
        if first is None:
            return None
        seen = max(_sizes_apart(first.case, item.case) for item in failures)
        if seen == len(first.case.sizes):
            return None
        case = self.another_case(first.check, first.case)
        if case is None or _sizes_apart(first.case, case) <= seen:
            return None
        result, outcome = self._result(first.check, case), self.outcome(first.check, case)
        if outcome.failure and outcome.failure.kind in ("timeout", "memory"):
            return None  # this case was one too many
        return Evidence(first.check, case, outcome, not result.passed, result.judged)

    def another_case(self, check: Check, case: Case) -> Case | None:
        """Returns a case of a check that differs in most sizes; None if there is none, or if its reference outputs are
        not recorded."""
        drawn = self.cases[check.cases]
        if self.reference.can_shrink and len(drawn) == 1:
            drawn = cases_.draw(self.problem, check.cases, self.seed + 1)
        other = max(drawn, key=partial(_sizes_apart, case))
        return other if _sizes_apart(case, other) else None

    def remarks(self) -> list[str]:
        """Returns the remarks on how the program ran, each once."""
        return list(dict.fromkeys(note for item in self.evidence for note in item.outcome.notes))

    def outcome(self, check: Check, case: Case) -> Outcome:
        """Returns the program's outcome of a check's probe. Checks with the same probe share one run."""
        key = (check.run_key, case)
        if key not in self._outcomes:
            self._outcomes[key] = self.probe(check, case)
        return self._outcomes[key]

    def _result(self, check: Check, case: Case) -> CheckResult:
        """Returns the result of one check on one case."""
        expected = self.reference.ask(check, case)
        outcome = self.outcome(check, case)
        if outcome.failure:
            self.reference.cancel(check, case)
            shown = None if outcome.failure.kind == BAD_ENTRY else case  # a missing name is missing in all cases
            return CheckResult(check, outcome.failure.verdict, outcome.failure.sentence(), case=shown)
        if check.measures and not outcome.traced:
            return not_judged(check, case, blocked.traceable(outcome.notes))
        if check.traced and not outcome.traced:
            return CheckResult(check, Verdict.FAIL, _untraced(outcome.notes), case=case)
        if check.measures and (values_differ := _wrong_values(check, expected.result(), outcome)):
            return not_judged(check, case, blocked.program_differs(values_differ), values_differ)
        mismatch = difference(check, case, expected.result(), outcome)
        if mismatch is None and not self._agrees(check, case, outcome):
            return not_judged(check, case, blocked.same_output(check.agrees_with))
        if mismatch is None:
            return CheckResult(check, Verdict.PASS, case=case)
        return CheckResult(check, Verdict.FAIL, mismatch.sentence(), mismatch, case)

    def _agrees(self, check: Check, case: Case, outcome: Outcome) -> bool:
        """Returns whether the output in an outcome is the one in the outcome of the check that it must agree with."""
        if not check.agrees_with:
            return True
        other = next(item for item in self.problem.checks if item.name == check.agrees_with)
        leaves = [select(each.leaves, "output") for each in (self.outcome(other, case), outcome)]
        return compare(leaves[0], leaves[1], other.tolerance) is None

    def judge(self, check: Check) -> CheckResult:
        """Returns the result of one check on all its cases, up to the first case that fails."""
        for case in self.cases[check.cases]:
            result = self._result(check, case)
            self.evidence.append(Evidence(check, case, self.outcome(check, case), not result.passed, result.judged))
            if not result.passed:
                break
        return result

    def error(self, item: Evidence) -> float:
        """Returns the error of an outcome, in units of its check's tolerance. Infinite where a program is needed and
        there is none."""
        if (item.check.traced or item.check.measures) and not item.outcome.traced:
            return float("inf")
        expected = select(self.reference.ask(item.check, item.case).result().leaves, item.check.leaves)
        return error(expected, select(item.outcome.leaves, item.check.leaves), item.check.tolerance, item.check.compare)

    def shrink(self, failed: CheckResult) -> CheckResult:
        """Returns the same failure on the smallest case that was found to show it."""
        check, case = failed.check, failed.case
        if case is None or failed.mismatch is None or case is self.cases[check.cases][0]:
            return failed  # the first case is the simplest one
        from grader.course import shrinking

        smallest = failed

        def fails(candidate: Case) -> bool:
            nonlocal smallest
            result = self._result(check, candidate)
            if result.mismatch is None:
                return False
            smallest = result
            return True

        shrinking.shrink(self.problem, case, self.seed, fails, SHRINK_SECONDS)
        return smallest

    def first_faulty_submodule(self, failed: CheckResult) -> Finding:
        """Returns the first faulty submodule; nothing if the check does not compare a module's values."""
        entry, case = failed.check.options.get("entry", ""), failed.case
        if not (failed.mismatch and failed.mismatch.kind == "value" and failed.check.probe == "values" and case):
            return Finding()
        if not self.problem.entry(entry).is_module:
            return Finding()
        gradient = select(self.outcome(failed.check, case).leaves, "gradient")
        used = None
        if gradient and failed.check.options.get("wrt") == "parameters":
            used = [leaf.path.removeprefix("gradient.") for leaf in gradient if leaf.values.any()]
        request = fault.check(entry)
        expected, got = self.reference.ask(request, case).result(), self.outcome(request, case)
        again = partial(self._again, request, case)
        return fault.first_faulty(expected, got, used, case.sizes, again)

    def counterexample(
        self, failed: CheckResult, variant: str, tree: Sequence[Part], known: Case | None
    ) -> Counterexample | None:
        """Returns the arrays of a failure. `variant` is the misconception behind it, if any; its outcome on the case
        `known` is known."""
        check, case = failed.check, failed.case
        if case is None:
            return None
        idea = Outcome()
        if variant and (case is known or not self.problem.long_runs):
            idea = self.reference.ask(check, case, variant).result()
        expected, got = self.reference.ask(check, case).result(), self.outcome(check, case)
        tolerance = tolerance_for(check, got)
        leaves = compared(check, failed.mismatch, [side.leaves for side in (expected, got, idea)], tolerance)
        return Counterexample(case, leaves[:MOST_LEAVES], tolerance, tree, len(leaves[MOST_LEAVES:]))

    def relation(self, failed: CheckResult) -> str:
        """Returns a sentence on how the wrong values relate to the expected ones: those of the first difference, or
        else of another leaf of the same run. Empty if they are not related."""
        check, mismatch, case = failed.check, failed.mismatch, failed.case
        if mismatch is None or case is None or check.compare == "at_most" or check.words or check.measures:
            return ""
        sides = (self.reference.ask(check, case).result(), self.outcome(check, case))
        want, have = ({leaf.path: leaf for leaf in values(side.leaves)} for side in sides)
        # The numbers of other leaves may be codes.
        paths = [
            path for path in want if path in have and (path == mismatch.path or want[path].values.dtype.kind == "f")
        ]
        for path in sorted(paths, key=lambda path: path != mismatch.path):
            again = partial(self._again, check, case, path)
            if sentence := relation(want[path], have[path], check.tolerance, case.sizes, again):
                return (
                    sentence if path == mismatch.path else f"In `{on_page(path)}`: {sentence[0].lower()}{sentence[1:]}"
                )
        if mismatch.words or mismatch.path not in paths:
            return ""
        return right_part(want[mismatch.path], have[mismatch.path], check.tolerance)

    def _again(self, check: Check, case: Case, path: str) -> tuple[Leaf, Leaf, Mapping[str, int]] | None:
        """Returns a leaf of the reference and of the program on a case of other sizes."""
        other = self.another_case(check, case)
        if other is None:
            return None
        sides = (self.reference.ask(check, other).result(), self.outcome(check, other))
        want, have = ({leaf.path: leaf for leaf in side.leaves} for side in sides)
        return (want[path], have[path], other.sizes) if path in want and path in have else None


def grade(
    problem: Problem,
    submission: Submission,
    workers: Workers,
    options: GradeOptions | None = None,
    shared: Shared | None = None,
    listener: Listener | None = None,
) -> Report:
    """Grades a submission in a worker of its own: loads it, runs the checks, explains the first failure.

    Raises CourseError if the problem itself is unsound.
    """
    options, shared, listener = options or GradeOptions(), shared or Shared(), listener or Listener()
    start = monotonic()
    reference = shared.reference or bundled_outputs.reference(problem, workers)
    job = submission_.job(problem)
    examiner = Examiner(problem, workers, job, options.timeout or problem.timeout, listener.say)
    try:
        cases = shared.cases or cases_.draw_all(problem, options.seed)
        comparison = Comparison(
            problem, reference, examiner.probe, options.seed, cases, submission.sources[problem.name]
        )
        failure = _load(examiner, submission, comparison)
        results = list(_run(comparison, failure, listener))
        explanation = _explain(comparison, results, failure, options, listener)
        stopped = _stopped(comparison, failure)
        unsteady = [nondeterminism.REMARK] * examiner.is_unstable()
        if unsteady:
            explanation = replace(explanation, misconception=None, fault="")
    finally:
        stdout = examiner.close()
        if shared.reference is None:
            reference.close()
    results, first = explanation.results, _first_failure(explanation.results)
    fault_text, eager_stdout, earlier = explanation.fault, "", None
    if not options.show:
        told = own_errors(problem, submission, workers, _failures(comparison, failure))
        results = [replace(result, own_error=told.get(result.check.name, "")) for result in results]
    elif first:
        fresh = partial(workers.worker, job)
        eager_stdout = rerun.printed_numbers(stdout, problem, submission, first, fresh)
        if not explanation.misconception:
            reason = rerun.reason_for_nan(problem, submission, first, fresh)
            fault_text = f"{fault_text} {reason}".strip()
    if first and options.grade_imports:
        earlier = _earlier_failure(problem, submission, workers, first.verdict, options, listener)
    report = Report(
        problem, submission.filename, results, explanation.misconception, stopped.frames_text() if stopped else "",
        line=stopped.line_in(submission.filename) if stopped else 0, stdout=without_logs(stdout),
        isolation=examiner.isolation, seconds=monotonic() - start, fault=fault_text, earlier=earlier,
        notes=submission.notes, remarks=[*unsteady, *comparison.remarks()],
        exited=examiner.worker.ended is not None and examiner.worker.ended.kind == "exit",
        counterexample=explanation.counterexample, eager_stdout=eager_stdout,
    )  # fmt: skip
    if report.verdict is Verdict.PASS:
        passes.note(problem, submission.sources, options.seed)
    return report


def _load(examiner: Examiner, submission: Submission, comparison: Comparison) -> Failure | None:
    """Imports the file, while the reference outputs are being computed."""
    reference, checks = comparison.reference, comparison.problem.checks
    prefetch(reference, checks, comparison.cases)
    case = comparison.cases[checks[0].cases][0]
    failure = examiner.load(submission)
    if failure:
        cancel_all(reference, checks, comparison.cases)
        comparison.evidence.append(Evidence(checks[0], case, Outcome(failure=failure), True))
    elif not reference.is_known(checks[0], case):  # then neither is what a witness returned
        examiner.start_witness()
    return failure


def _run(comparison: Comparison, failure: Failure | None, listener: Listener) -> Iterator[CheckResult]:
    """Yields the result of every check; all of them fail if the file could not be loaded."""
    for check in comparison.problem.checks:
        failed = failure and CheckResult(check, failure.verdict, failure.sentence())
        result = failed or comparison.judge(check)
        listener.on_check(result)
        yield result


@dataclass(frozen=True)
class Explanation:
    """The results with the first failure on its smallest case, the misconception behind it or, where none fits, a
    sentence on the first faulty submodule, and the arrays."""

    results: list[CheckResult]
    misconception: Misconception | None = None
    fault: str = ""
    counterexample: Counterexample | None = None


def _explain(
    comparison: Comparison,
    results: list[CheckResult],
    failure: Failure | None,
    options: GradeOptions,
    listener: Listener,
) -> Explanation:
    first = _first_failure(results)
    if first is None or all(result.verdict in (Verdict.PASS, Verdict.NOT_ATTEMPTED) for result in results):
        return Explanation(results)
    # What is wrong is said at once, and what explains it, seconds later.
    listener.say(f"{first.verdict}: {first.check.name}: {first.message} (looking for the misconception)")
    unclear = {result.check.name for result in without_consequences(results, first) if not result.judged}
    comparison.evidence = [replace(item, judged=item.check.name not in unclear) for item in comparison.evidence]
    found = comparison.diagnosis()
    misconception = found.misconception if found else None
    if failure or first.verdict is Verdict.NOT_ATTEMPTED:
        return Explanation(results, misconception)
    smallest = comparison.shrink(first) if options.shrink and comparison.reference.can_shrink else first
    faulty = Finding() if misconception else comparison.first_faulty_submodule(smallest)
    sentence = "" if misconception or faulty.related else comparison.relation(smallest)
    if sentence:
        smallest = replace(smallest, message=f"{smallest.message}. {sentence}")
    results = [smallest if result is first else result for result in results]
    shown = None
    if options.show:
        shown = comparison.counterexample(smallest, found.variant if found else "", faulty.tree, first.case)
    return Explanation(without_consequences(results, smallest), misconception, faulty.text, shown)


def _first_failure(results: Sequence[CheckResult]) -> CheckResult | None:
    return next((result for result in results if not result.passed), None)


def _failures(comparison: Comparison, failure: Failure | None) -> dict[str, Failure]:
    """Collects the submission's errors by name of the check. `failure`, if loading failed, is the error of every
    check."""
    failures = {item.check.name: item.outcome.failure for item in comparison.evidence if item.outcome.failure}
    return failures | ({check.name: failure for check in comparison.problem.checks} if failure else {})


def _stopped(comparison: Comparison, failure: Failure | None) -> Failure | None:
    """Returns the first exception, for the report to show its frames; None if there is none."""
    first = next((item.outcome.failure for item in comparison.evidence if item.wrong), failure)
    return first if first and first.kind != "not_implemented" else None


def _earlier_failure(
    problem: Problem,
    submission: Submission,
    workers: Workers,
    verdict: Verdict,
    options: GradeOptions,
    listener: Listener,
) -> Report | None:
    """Returns the report on the first imported course module, by number, that fails its own checks.

    `verdict` is the submission's. A module that is still a stub counts as failing only if that is NOT ATTEMPTED. One
    that is known to pass is not graded again.
    """
    accepted = {Verdict.PASS} | ({Verdict.NOT_ATTEMPTED} - {verdict})
    for name in sorted(set(submission.sources) & set(catalog.names()) - {problem.name}):
        imported = catalog.load(name)
        sources = imports.with_imports(name, submission.sources[name], submission.sources.get)
        if passes.is_known(imported, sources, options.seed):
            continue
        listener.say(f"grading {name}.py, which it imports")
        module = Submission(f"{name}.py", sources)
        report = grade(imported, module, workers, GradeOptions(seed=options.seed, grade_imports=False))
        if report.verdict not in accepted:
            return report
    return None


def _sizes_apart(one: Case, other: Case) -> int:
    """Returns the number of sizes that differ between two cases of a family; all sizes, if the families differ."""
    if one.group != other.group:
        return len(one.sizes)
    return sum(other.sizes.get(name) != value for name, value in one.sizes.items())


def difference(check: Check, case: Case, expected: Outcome, got: Outcome) -> Mismatch | None:
    """Returns the first mismatch in the leaves that a check compares, with coded numbers as words. A code that is read
    off a NaN means nothing: then the NaN is the mismatch."""
    expected_leaves, got_leaves = select(expected.leaves, check.leaves), select(got.leaves, check.leaves)
    if expected_leaves and not got_leaves:
        first = expected_leaves[0]
        return Mismatch("missing", first.path, str(first), "nothing")
    mismatch = compare(expected_leaves, got_leaves, tolerance_for(check, got), check.compare)
    if mismatch is None or mismatch.kind != "value":
        return mismatch
    if check.words:
        if found := first_nan(values(expected.leaves), values(got.leaves)):
            return found
        words, numbers = check.words_for(case), (mismatch.expected, mismatch.got)
        want, have = (words.get(int(text), text) if text.lstrip("-").isdigit() else text for text in numbers)
        mismatch = replace(mismatch, expected=want, got=have, off_by=None)
    if check.in_words:
        leaves = (
            next(each.values for each in some if each.path == mismatch.path) for some in (expected_leaves, got_leaves)
        )
        wrong = Difference(mismatch.name, mismatch.index or (), mismatch.expected, mismatch.got, *leaves)
        mismatch = replace(mismatch, words=check.in_words(case, wrong))
    return mismatch


def _wrong_values(check: Check, expected: Outcome, got: Outcome) -> Mismatch | None:
    """Returns the first wrong value of a program that is to be measured. Measures count only for a program that returns
    the right values."""
    return compare(*to_be_equal(expected.leaves, got.leaves), check.values_tolerance)


def _untraced(notes: Sequence[str]) -> str:
    what = "it must be traceable by jax.jit"
    return f"{what} ({'; '.join(notes)})" if notes else what


def refused(problem: Problem, filename: str, verdict: Verdict, message: str) -> Report:
    """Returns the report on a file that was never run."""
    return Report(problem, filename, [CheckResult(check, verdict, message) for check in problem.checks])
