"""Checks that problems are sound. Grades stubs, references, misconceptions and other correct programs as a learner's
file."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np

from commandline import cores
from commandline.errors import CommandError
from grader.course import (
    cases,
    catalog,
    claims,
    dimensions,
    imports,
    page,
    plays,
    predictions,
    promises,
    scaffold,
    sources,
)
from grader.course.catalog import Misconception
from grader.course.course import FORGERIES, FRAMES, STYLES
from grader.errors import CourseError
from grader.exhibits import Progress
from grader.isolation.sandbox import ForkServer
from grader.judge import judge, submission
from grader.judge.examiner import Examiner
from grader.judge.judge import Comparison, Shared
from grader.judge.options import GradeOptions
from grader.judge.reference import Reference
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.judge.worker_session import Outcome
from grader.margins import Margin, can_fail, measure_correct, measure_wrong
from grader.play.play_session import Performance
from grader.practice import hunt_soundness, short_form
from grader.problem import Case, Check, Problem
from grader.soundness import Row
from grader.wire.compare import Leaf, select

FEWEST_HINTS = 3
FEWEST_STYLES = 2
BROKEN = ("NameError", "SyntaxError", "IndentationError", "TabError")  # an idea ends in one only by an author's mistake
SECONDS = 3600.0  # for all seeds together; this limit only stops an author's mistakes


def verify(problems: Iterable[Problem], jobs: int | None = None, seeds: int = 20) -> Iterator[Row]:
    """Yields a row for each problem, in order. `jobs` problems are verified at a time, with seed 0 and `seeds` other
    seeds.

    Each is verified in a process of a pool, because a judge adopts the orphans of its submissions.
    """
    chosen = list(problems)
    with cores.pool(min(jobs or cores.usable_cores(), len(chosen) or 1)) as pool:
        # The longest first, so that it does not run alone at the end.
        longest_first = sorted(chosen, key=lambda problem: not problem.long_runs)
        rows = {problem.name: pool.submit(verify_one, problem.name, seeds) for problem in longest_first}
        for problem in chosen:
            yield rows[problem.name].result()


def verify_hunts(problems: Iterable[Problem], jobs: int | None = None) -> Iterator[hunt_soundness.Row]:
    """Yields a row for the hunts of each problem, in order. `jobs` problems are tried at a time."""
    chosen = list(problems)
    with cores.pool(min(jobs or cores.usable_cores(), len(chosen) or 1)) as pool:
        yield from pool.map(_prove, [problem.name for problem in chosen])


def _prove(name: str) -> hunt_soundness.Row:
    problem = catalog.load(name)
    try:
        return hunt_soundness.prove(problem, _fork_server())
    except CommandError as error:
        return hunt_soundness.Row(problem.name, complaints=[str(error)])


def verify_one(name: str, seeds: int = 20) -> Row:
    """Verifies one problem."""
    start, row = monotonic(), Row(name, asked=seeds)
    try:
        problem = catalog.load(name)
        row.points = problem.points
        _verify_definition(problem, row)
        reference = Reference(problem, _fork_server())
        try:
            for verify_part in (
                _verify_page, _verify_claims, _verify_predictions, _verify_sizes, _verify_verdicts, _verify_why,
                _verify_core, _verify_checks, _verify_misconceptions, _verify_pitfalls, _verify_promises,
                _verify_correct_programs, _verify_forgeries, _verify_play,
            ):  # fmt: skip
                try:
                    verify_part(problem, reference, row)
                except CourseError as error:
                    row.complaints.append(str(error))
        finally:
            reference.close()
    except CommandError as error:
        row.complaints.append(str(error))
    row.seconds = monotonic() - start
    return row


def _verify_definition(problem: Problem, row: Row) -> None:
    """Names are unique, the stub defines the entries, checks have points, and no TODO is left."""
    for kind, names in {
        "check": [check.name for check in problem.checks],
        "misconception": [misconception.name for misconception in catalog.misconceptions(problem)],
    }.items():
        row.complaints += [f"two {kind}s are called {name!r}" for name, count in Counter(names).items() if count > 1]
    defined = {node.name for node in imports.syntax_tree(catalog.stub_text(problem)).body if hasattr(node, "name")}
    row.complaints += [f"the stub does not define `{e.name}`" for e in problem.entries if e.name not in defined]
    if problem.points < 1:
        row.complaints.append("no check has points")
    row.complaints += scaffold.open_items(problem)


def _verify_page(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the page has all sections in order, enough hints, the entries, and true examples."""
    before, sections = len(row.complaints), page.sections(problem)
    row.complaints += [f"the page has no section {title!r}" for title in page.SECTIONS if not sections.get(title)]
    if list(sections) != [title for title in page.SECTIONS if title in sections]:
        row.complaints.append("the page's sections are in the wrong order, or it has others")
    if len(page.hints(problem)) < FEWEST_HINTS:
        row.complaints.append(f"the page has fewer than {FEWEST_HINTS} hints")
    row.complaints += [
        f"the section 'The problem' does not mention `{entry.name}`"
        for entry in problem.entries
        if entry.name not in sections.get("The problem", "")
    ]
    if ">>>" not in sections.get("Examples", ""):
        row.complaints.append("the page has no `>>>` example")
    row.complaints += _false(reference, catalog.page_text(problem), "an example of the page")
    sources.of(problem)  # raises CourseError if one is malformed
    page.for_browser(problem)  # raises CourseError if its drawing cannot be drawn
    row.page = len(row.complaints) == before


def _verify_claims(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the numbers of the worked sketch, and the page's statements about libraries, are in examples, and
    that these are true."""
    row.complaints += claims.faults(problem, claims.claims(problem))
    row.complaints += _false(reference, claims.examples(problem), "the example of a [[claim]]")


def _verify_predictions(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the page asks for a prediction or more, and that the example of each gives its answer."""
    asked = predictions.of(problem)
    if not 1 <= len(asked) <= predictions.MOST:
        row.complaints.append(f"the page asks for {len(asked)} predictions: it needs one to {predictions.MOST}")
    for prediction in asked:
        if not prediction.is_proved():
            row.complaints.append(f"the example of the prediction {prediction.question!r} does not end with its answer")
    row.complaints += _false(reference, predictions.examples(problem), "the example of a prediction")


def _verify_sizes(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the cases reach the sizes that people meet, in each dimension that concerns the problem."""
    row.complaints += dimensions.faults(problem, cases.drawn_once(problem.name, 0))


def _false(reference: Reference, text: str, what: str) -> list[str]:
    """Returns a complaint about each example in a text that is false."""
    return [f"{what} is false: {' '.join(report.split())[-300:]}" for report in reference.examples(text)]


def _verify_verdicts(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the stub and the reference, graded as submissions, get NOT ATTEMPTED and PASS."""
    stub = _grade(
        problem,
        Submission("stub.py", {**reference.submission().sources, problem.name: catalog.stub_text(problem)}),
        reference,
    )
    row.stub = stub.verdict is Verdict.NOT_ATTEMPTED
    if not row.stub:
        row.complaints.append(f"the verdict on the stub is {stub.verdict}: {_reason(stub)}")
    right = _grade(problem, submission.reference(problem), reference)
    row.score = right.score
    if right.verdict is not Verdict.PASS:
        row.complaints.append(f"the verdict on the reference is {right.verdict}: {_reason(right)}")


def _verify_why(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the author says why the reference is written so, wherever learners can read it."""
    if catalog.shows_solution(problem) and not catalog.why(problem):
        row.complaints.append("nothing says why the reference is written so, and what another good way is: add `why`")


def _verify_core(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the reference and each frame without the lines of its core fails no check, and that the core has
    the right length. Checks that need the core must be NOT ATTEMPTED.

    Frames are among the correct programs in other styles, so `_verify_correct_programs` shows that each of them passes
    as a whole.
    """
    found = short_form.frames(problem)
    for name in {path.name for path in catalog.frames(problem)} ^ {frame.name for frame in found if frame.name}:
        row.complaints.append(
            f"{name} must be both a file p{problem.label}_*.py of {FRAMES} and the `file` of a [[frame]]"
        )
    for frame in found:
        name = frame.name or "the reference"
        sources = imports.with_imports(problem.name, frame.stub, catalog.references(problem))
        report = _grade(problem, Submission(f"{problem.name}.py", sources), reference)
        verdicts = {result.verdict for result in report.checks}
        if Verdict.NOT_ATTEMPTED not in verdicts or verdicts - {Verdict.NOT_ATTEMPTED, Verdict.PASS}:
            row.complaints.append(f"without its core, {name} is {report.verdict}: {_reason(report)}")
        if not short_form.FEWEST <= frame.count <= short_form.MOST:
            bounds = f"{short_form.FEWEST} to {short_form.MOST}"
            row.complaints.append(f"the core of {name} has {frame.count} lines; it must have {bounds}")


def _verify_checks(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that stages are whole, that each check compares something, that no number of the reference is NaN, and
    that numbers far off fail."""
    in_order = [check.stage for name in problem.stages for check in problem.checks if check.stage == name]
    if [check.stage for check in problem.checks] != in_order or (len(problem.stages) > 1 and "" in problem.stages):
        row.complaints.append("each check must be in a stage, and the checks of a stage must stand together")
    for check in problem.checks:
        outcomes = [reference.ask(check, case).result() for case in cases.drawn_once(problem.name, 0)[check.cases]]
        leaves = [leaf for outcome in outcomes for leaf in select(outcome.leaves, check.leaves)]
        if not leaves:
            names = ", ".join(f"`{leaf.path}`" for leaf in outcomes[0].leaves[:4])
            row.complaints.append(f"the check {check.name!r} compares nothing: `{check.leaves}` is not among {names}")
        row.complaints += _number_faults(check, [leaf for leaf in leaves if leaf.values.size])


def _number_faults(check: Check, numbers: Sequence[Leaf]) -> Iterator[str]:
    """Yields what is wrong with the numbers of the reference that a check compares."""
    nans = (leaf.path for leaf in numbers if leaf.values.dtype.kind in "fc" and np.isnan(leaf.values).any())
    if path := next(nans, None):
        yield f"`{path}` of the reference is NaN, so that a NaN passes the check {check.name!r}"
    if numbers and not any(can_fail(leaf, check) for leaf in numbers):
        yield f"every number passes the check {check.name!r}: its tolerance is too large"


def _verify_misconceptions(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that each form of each misconception is rejected and identified with seed 0, and rejected with every
    other seed."""
    row.margins = [Margin(check.name, check.tolerance.room) for check in problem.checks]
    row.complaints += [f"{each.name!r} has no `fix`" for each in catalog.misconceptions(problem) if not each.fix]
    for variant, misconception in reference.misconceptions.items():
        row.ideas += 1
        comparison = _comparison(problem, reference, functools.partial(_ask, reference, variant), 0)
        # The margins need all checks. Where each check takes a long run, stop at the first that fails.
        results = [comparison.first_failure()] if problem.long_runs else comparison.results()
        first = next((result for result in results if result and not result.passed), None)
        if first is None:
            row.complaints.append(f"{variant!r} is not rejected")
            continue
        row.complaints += _failure_faults(variant, misconception, comparison)
        named = comparison.misconception()
        row.named += named is misconception
        if named is not misconception:
            name = repr(named.name) if named else "nothing"
            row.complaints.append(f"{variant!r} is identified as {name}: {first.check.name}: {first.message}")
        measure_wrong(row.margins, comparison)
        reference.keep = False
        seeds = range(1, row.asked + 1)
        accepting = [seed for seed in seeds if _accepts(problem, reference, variant, seed, first.check)]
        reference.keep = True
        row.rejected += not accepting
        if accepting:
            row.complaints.append(
                f"{variant!r} is not rejected with seed {accepting[0]} ({len(accepting)} of {row.asked} seeds)"
            )


def _failure_faults(variant: str, misconception: Misconception, comparison: Comparison) -> Iterator[str]:
    """Yields what is wrong with the exception of a form that raises one."""
    failure = next((item.outcome.failure for item in comparison.evidence if item.outcome.failure), None)
    if failure and failure.type in BROKEN:
        yield f"{variant!r} is broken: {failure.sentence()}"
    elif failure and not misconception.raises:
        yield f"{variant!r} needs `raises = true`: {failure.sentence()}"


def _verify_pitfalls(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that each pitfall of the page is a misconception."""
    found, misconceptions = promises.pitfalls(problem), catalog.misconceptions(problem)
    row.pitfalls = len(found)
    row.covered = sum(bool(promises.of_pitfall(bullet, misconceptions)) for bullet in found)
    row.complaints += promises.pitfall_faults(problem)


def _verify_promises(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that each promise of the page has a check, which rejects a form of the misconception that breaks it."""
    row.promises, found = promises.promises(problem), promises.promising(problem)
    row.promised = len(found)
    row.complaints += promises.faults(problem, row.promises)
    checks = {check.name: check for check in problem.checks}
    unseen = set()
    for entry in row.promises:
        check = checks.get(entry.check)
        forms = [variant for variant, item in reference.misconceptions.items() if item.name == entry.broken_by]
        if check and forms and not any(_rejects(problem, reference, form, check) for form in forms):
            unseen.add(entry.page)
            row.complaints.append(
                f"the check {entry.check!r} does not reject {entry.broken_by!r}, so it does not see the promise: "
                f"{entry.page}"
            )
    row.kept = sum(promises.covered(sentence, row.promises) and sentence not in unseen for sentence in found)


def _rejects(problem: Problem, reference: Reference, variant: str, check: Check) -> bool:
    """Returns whether one check rejects a variant of the reference with seed 0."""
    comparison = _comparison(problem, reference, functools.partial(_ask, reference, variant), 0)
    return not comparison.judge(check).passed


def _comparison(
    problem: Problem, reference: Reference, probe: Callable[[Check, Case], Outcome], seed: int
) -> Comparison:
    return Comparison(problem, reference, probe, seed, cases.drawn_once(problem.name, seed))


def _ask(reference: Reference, variant: str, check: Check, case: Case) -> Outcome:
    return reference.ask(check, case, variant).result()


def _accepts(problem: Problem, reference: Reference, variant: str, seed: int, likely: Check) -> bool:
    """Returns whether no check rejects the variant. Runs the check that is `likely` to reject it first."""
    comparison = _comparison(problem, reference, functools.partial(_ask, reference, variant), seed)
    return comparison.judge(likely).passed and comparison.first_failure() is None


def _verify_correct_programs(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the reference with every other seed, and correct programs in other styles, pass, and that the
    tolerances have margins."""
    row.seeds = _passes(
        problem, reference, submission.reference(problem), row, range(1, row.asked + 1), "the reference"
    )
    styles = catalog.styles(problem)
    if (problem.home / STYLES).is_dir() and len(styles) < FEWEST_STYLES:
        row.complaints.append(
            f"{problem.home / STYLES} has fewer than {FEWEST_STYLES} correct programs in other styles"
        )
    for path in styles:
        sources = imports.with_imports(problem.name, catalog.text_of(path), catalog.references(problem))
        _passes(problem, reference, Submission(path.name, sources), row, range(min(row.asked, 4) + 1), path.name)
    for margin in row.margins:
        if not margin.wide_enough:
            row.complaints.append(
                f"the margin of {margin.check!r} is too small: errors of correct programs reach {margin.right:.2g} of "
                f"the tolerance, those of wrong ones {margin.wrong:.2g}; they must be below {1 / margin.room:.2g} and "
                f"above {margin.room:g}"
            )


def _passes(
    problem: Problem, reference: Reference, source: Submission, row: Row, seeds: Iterable[int], name: str
) -> int:
    """Returns the number of seeds with which a correct program passes. All run in one process."""
    examiner = Examiner(problem, _fork_server(), submission.job(problem), SECONDS)
    passed = 0
    try:
        failure = examiner.load(source)
        if failure:
            row.complaints.append(f"{name}: {failure.sentence()}")
            return 0
        for seed in seeds:
            comparison = _comparison(problem, reference, examiner.probe, seed)
            results = comparison.results()
            wrong = [result for result in results if not result.passed]
            passed += not wrong
            if wrong:
                row.complaints.append(f"{name} fails with seed {seed}: {wrong[0].check.name}: {wrong[0].message}")
            measure_correct(row.margins, comparison)
    finally:
        examiner.close()
    return passed


def _verify_forgeries(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that each check of a program, a process or a file has a forgery, and that no forgery gets the points of
    a check that it forges."""
    claims = [check for check in problem.checks if check.is_claim]
    forged: dict[str, list[bool]] = {}
    for path in catalog.forgeries(problem):
        names = forges(path)
        needed = {*names, *(check.agrees_with for check in problem.checks if check.name in names)}
        few = replace(problem, checks=tuple(check for check in problem.checks if check.name in needed))
        report = _grade(few, forgery(problem, path), reference)
        for result in (result for result in report.checks if result.check.name in names):
            forged.setdefault(result.check.name, []).append(not result.passed)
            if result.passed:
                row.complaints.append(f"{path.name} passes {result.check.name!r}")

    def lost(check: Check) -> list[bool]:
        """Returns whether each forgery of the check loses it. Checks of one run that measure no program share their
        forgeries."""
        shared = [] if check.measures else [other for other in claims if other.run_key == check.run_key]
        return [one for other in (check, *shared) for one in forged.get(other.name, [])]

    row.claims = len(claims)
    row.forged = sum(bool(lost(check)) and all(lost(check)) for check in claims)
    if (problem.home / FORGERIES).is_dir():
        row.complaints += [f"no forgery of the check {check.name!r}" for check in claims if not lost(check)]


def forgery(problem: Problem, path: Path) -> Submission:
    """Returns a forgery, with the solutions of the problems that it imports: without these it would lose its checks for
    that."""
    text = catalog.text_of(path)
    return Submission(path.name, imports.with_imports(problem.name, text, catalog.references(problem)))


def _verify_play(problem: Problem, reference: Reference, row: Row) -> None:
    """Verifies that the play, if there is one, shows something of the reference within its time."""
    if plays.find(problem) is None:
        return
    performance = Performance(problem, submission.reference(problem), _fork_server())
    shown = sum(not isinstance(exhibit, Progress) for exhibit in performance)
    if performance.failure:
        row.complaints.append(f"the reference cannot be played: {performance.told()}")
    elif not shown:
        row.complaints.append("the play shows nothing")


def forges(path: Path) -> tuple[str, ...]:
    """Returns the names of the checks that a forgery must lose: its constant LOSES. Reads the file, and does not run
    it."""
    names: tuple[str, ...] = imports.constant(path.read_text(encoding="utf-8"), "LOSES")
    return names


@functools.cache
def _fork_server() -> ForkServer:
    """Returns the fork server of all workers of this process."""
    return ForkServer()


def _grade(problem: Problem, source: Submission, reference: Reference) -> Report:
    options = GradeOptions(grade_imports=False, show=False)
    return judge.grade(problem, source, _fork_server(), options, Shared(reference))


def _reason(report: Report) -> str:
    failed = report.first_failure
    return f"{failed.check.name}: {failed.message}" if failed else ""
