"""`grade batch`: from the submissions of a class to tables, gradebooks and a summary."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from commandline import files
from commandline.cores import usable_cores
from commandline.errors import CommandError, Interrupted, UsageError
from commandline.problem_name import ProblemName
from commandline.progress import progress
from commandline.text import counted, one_line
from grader.batch import (
    class_page,
    deadlines,
    feedback,
    gradebook,
    groups,
    identity,
    intake,
    marks,
    moves,
    reader,
    regrades,
    reveal,
    roster,
    run,
    summary,
)
from grader.batch.deadlines import Deadlines, Settled
from grader.batch.faults import Faults
from grader.batch.identity import Directory
from grader.batch.intake import Intake
from grader.batch.marks import Keeping
from grader.batch.records import Known, Person, Record, by_learner
from grader.batch.results import DATABASE, Results
from grader.batch.roster import Assignment, Enrollment, Roster
from grader.batch.store import Settle, Store
from grader.batch.tasks import Graded, Task
from grader.course import catalog
from grader.course.seed import create_seed, read_seed
from grader.isolation import scratch
from grader.isolation.level import Level
from grader.report import redacted
from grader.report.redacted import Reveal

SEED, LOG = "seed.txt", "internal-errors.log"
FILES = ("seed_file", "deadlines", "roster", "groups")  # options that decide marks; a results folder remembers them
KNOWN = "known"  # the option whose folders it remembers, too
MOST_SHOWN = 20  # learners in a note


@dataclass(frozen=True)
class BatchOptions:
    """How a class is graded.

    `problems` is a list such as `01-08,12`; without it, all problems that have a submission are graded. `jobs` is the number
    of processes, `timeout` the limit in seconds for each submission, and `least` the lowest level of isolation that is
    accepted. `scheduler` is the address of a Dask cluster. `formats` are the gradebooks and reports to write in addition to
    the tables. `deadlines`, `roster` and `groups` are files. Of several attempts the best one counts, or the last one unless
    `best`.
    `name` is that of the class, and `keeping` says which marks stay that would change without a new submission. `regrade` names
    what to grade again, as LEARNER or LEARNER:NN, `regrade_checks` a problem and one of its checks, for everybody, and `because`
    says why. `feedback` is a folder for a page for each learner,
    which has the failing cases if `show_cases` is set. `without` are the files that an earlier batch had and this one shall not.
    `known` are folders or archives of solutions that learners can have found. `reveal` is what pages and reports tell learners,
    and `reveal_after_due` what they tell after the due date; None means as in the last batch.
    """

    problems: str | None = None
    seed_file: Path | None = None
    jobs: int | None = None
    timeout: float | None = None
    least: Level = Level.STRICT
    scheduler: str | None = None
    formats: tuple[str, ...] = ()
    deadlines: Path | None = None
    roster: Path | None = None
    best: bool = True
    regrade: tuple[str, ...] = ()
    because: str = ""
    feedback: Path | None = None
    show_cases: bool = False
    groups: Path | None = None
    name: str = ""
    keeping: Keeping = ""
    without: tuple[str, ...] = ()
    regrade_checks: tuple[tuple[str, str], ...] = ()
    known: tuple[Path, ...] = ()
    reveal: Reveal | None = None
    reveal_after_due: Reveal | None = None


def batch(submissions: Path, results: Path, options: BatchOptions) -> Iterator[str]:
    """Grades new and changed submissions, writes the results, and yields lines for the terminal. Raises CommandError."""
    if bool(options.regrade or options.regrade_checks) != bool(options.because.strip()):
        raise UsageError(
            "--regrade and --regrade-check need --because with the reason, and --because needs one of these."
        )
    if options.show_cases and not (options.feedback or feedback.FORMAT in options.formats):
        raise UsageError("--show-cases needs --feedback with the folder for the pages.")
    if options.problems is not None and not options.problems.strip():
        raise UsageError("--problems is empty; name problems such as 01-03, or leave the option out.")
    _require_apart(submissions, results)
    if options.feedback:
        feedback.create(options.feedback)  # before a class is graded for it
    options, reused = _like_the_last(results, options)
    yield from (f"Note: {note}." for note in reused)
    redacted.require_more(options.reveal or reveal.ADVICE, options.reveal_after_due)
    rules = deadlines.read(options.deadlines) if options.deadlines else None
    if options.reveal_after_due and not rules and "gradescope" not in options.formats:
        yield "Note: without --deadlines nothing is due, so --reveal-after-due changes nothing."
    enrolled = roster.read(options.roster) if options.roster else None
    faults = Faults(results / LOG)
    intake_ = intake.read(submissions, catalog.select(options.problems) if options.problems else None, faults)
    yield (
        f"{counted(len(intake_.learners), 'learner')} ({intake_.layout}), {counted(len(intake_.problems), 'problem')}, "
        f"{counted(len(intake_.items), 'file')}."
    )
    left_out = list[str]()
    known = [one for folder in options.known for one in _known(folder, intake_, left_out)]
    store = Store(results)
    try:
        yield from (f"Note: {note}." for note in moves.follow(store))
        if options.groups:
            intake_.notes += groups.apply(groups.read(options.groups), intake_)
        renamed = [*identity.recognize(intake_, store)]
        kept = [*_keep_earlier(intake_, store)]
        enrollment = roster.enroll(enrolled, intake_) if enrolled else None
        for person, learner in enrollment.joined if enrollment else ():
            store.join(person.learner, learner, person.ids[:1], "they are one student of the roster")
        people = list(intake_.people.values())
        participants = _participants(intake_, enrolled, enrollment)
        if feedback.FORMAT in options.formats and not participants:
            raise UsageError(
                "--format moodle needs the participants' numbers: grade Moodle's archive of submissions, or give its grading "
                "worksheet with --roster."
            )
        directory = Directory(people)
        notes = [
            *intake_.notes,
            *renamed,
            *kept,
            *(enrollment.notes if enrollment else []),
            *left_out[:MOST_SHOWN],
            *(
                [f"{len(left_out) - MOST_SHOWN:,} more known files are not compared"]
                if len(left_out) > MOST_SHOWN
                else []
            ),
            *_without_effect(rules, directory, intake_),
        ]
        yield from (f"Note: {note}." for note in notes)
        yield from _unused_lines(intake_)
        to_regrade = [
            *(regrades.of_learner(word, directory, intake_) for word in options.regrade),
            *(regrades.of_check(number, check, intake_) for number, check in options.regrade_checks),
        ]
        seed_file = options.seed_file or results / SEED
        if options.seed_file is None:
            create_seed(seed_file)
        yield f"The hidden cases are drawn with the seed in {seed_file}, by NumPy {version('numpy')} and JAX {version('jax')}."
        seed = read_seed(seed_file)
        grounds = marks.Grounds.of(intake_.problems, seed, options.timeout, rules, best=options.best)
        causes = grounds.changed(store)
        if "seed" in causes.names:
            yield "Note: existing results are from another seed and will be regraded."
        store.publish_new()  # those of an earlier version, which remembered none
        regrades.record(store, to_regrade, options.because)
        requested = store.regrades()
        plan = run.plan(intake_, store, seed, options.timeout, options.least)
        if again := causes.graded_again():
            yield (
                f"Note: {marks.SAID['semantics']} since problem {', '.join(again)} was graded, so its results are graded again."
            )
        repeated = sum(map(len, plan.same.values()))
        total = len(plan.tasks) + repeated
        how = f", of which {repeated} repeat the code of another" if repeated else ""
        left = f"Not handed in: {plan.missing}. Unreadable: {plan.unreadable}."
        yield f"To grade: {total}{how}. Unchanged: {plan.unchanged}. {left}"
        graded = _grade(plan.tasks, options, faults)
        _remember_about(store, options.name or submissions.resolve().name, rules)
        store.remember_intake(people, [(file.learner, file.file, file.reason) for file in intake_.unused])
        with progress("grading", unit="submissions", total=total) as advance:
            try:
                run.carry_out(
                    plan, store, _settle(plan, directory, people, rules, options.best), graded, advance, faults
                )
            except KeyboardInterrupt:
                raise Interrupted(
                    f"Interrupted with {store.saved()} of {len(plan.wanted)} results saved. Rerun the command to resume."
                ) from None
        done = regrades.carried_out(requested, store.regrades())
        changes = marks.publish(store, causes, done, options.keeping, best=options.best)
        grounds.remember(store)
        for name in FILES:
            path = getattr(options, name)
            store.remember(name, str(path.resolve()) if path else "")
        store.remember(KNOWN, json.dumps([str(folder.resolve()) for folder in options.known]))
        store.remember_known(known)
        for name in reveal.FACTS:
            store.remember(name, getattr(options, name) or "")
        records = store.records()
        yield from regrades.lines(done)
        yield from marks.lines(changes)
        yield from map(str, store.write_tables())
        books, assignments = list[Path](), [Assignment.of(problem) for problem in intake_.problems]
        over = reveal.past_due(records, people, rules)
        tells = reveal.levels(records, over, options.reveal, options.reveal_after_due)
        shown = [record.told(tells[record.learner, record.problem]) for record in records]
        not_yet = sorted({ProblemName(name).label for (_, name), past in over.items() if not past})
        if options.show_cases and not_yet:
            labels = ", ".join(not_yet)
            yield f"Note: the pages show secret cases of problem {labels}, which can still be handed in on time."
        on_roster = set(enrollment.learner_of.values()) if enrollment else set(intake_.learners)
        enrolled_records = [record for record in records if record.learner in on_roster]
        for name in options.formats:
            if name in gradebook.GRADEBOOKS:
                books += _gradebooks(name, enrolled_records, people, assignments, results)
            elif name != feedback.FORMAT:
                later = [
                    record.told(options.reveal_after_due or tells[record.learner, record.problem]) for record in records
                ]
                yield str(gradebook.write_reports(shown, results, name, faults, later))
        if enrolled and enrollment:
            books += [
                roster.write_gradebook(enrolled, enrollment, marked, assignments, path)
                for path, marked in _raw_and_adjusted(records, results, "gradebook")
            ]
        for_moodle = feedback.FORMAT in options.formats
        yield from map(str, books)
        yield from _set_aside(results, [*books, *([results / gradebook.MOODLE] if for_moodle else [])])
        summary_ = summary.of(store)
        yield from map(str, summary.write_all(summary_, class_page.document(summary_), results))
        yield from summary.likeness_lines(summary_)
        told, articles = replace(summary_, records=by_learner(shown)), dict[tuple[str, str], str]()
        if options.show_cases:
            to_explain = [
                task
                for task in feedback.tasks(store, seed, options.timeout, options.least)
                if tells[task.learner, task.problem] == reveal.ADVICE
            ]
            explained = _grade(to_explain, options, faults)
            with progress("explaining", unit="failures", total=len(to_explain)) as advance:
                articles = feedback.articles(explained, records, advance)
        if for_moodle:
            yield str(feedback.write_moodle(told, articles, participants, results, faults))
        if options.feedback:
            yield str(feedback.write(told, articles, options.feedback, faults))
        yield ", ".join(f"{count} {verdict}" for verdict, count in sorted(summary_.verdicts.items())) + "."
    finally:
        store.close()
        scratch.sweep()
    if faults.count:
        raise CommandError(
            f"{counted(faults.count, 'internal error')} of the grader; {faults.log} has the tracebacks. Please report them. "
            "All other results are complete. Rerun the command to grade these submissions again."
        )


def _grade(to_grade: Sequence[Task], options: BatchOptions, faults: Faults) -> Iterator[tuple[Task, Graded | str]]:
    """Grades on the cluster if there is one, else on this machine."""
    if options.scheduler:
        return run.on_cluster(to_grade, options.scheduler, faults)
    return run.here(to_grade, options.jobs or usable_cores(), faults)


def _remember_about(store: Store, name: str, rules: Deadlines | None) -> None:
    """Stores what the pages of the class say of it."""
    now = datetime.now(rules.timezone) if rules else datetime.now().astimezone()
    store.remember("class", one_line(name))
    store.remember("graded", f"graded {now:%Y-%m-%d %H:%M %Z}")
    store.remember("dates", str(rules or ""))


def _require_apart(submissions: Path, results: Path) -> None:
    """Raises UsageError if one of the two folders is in the other: results would be taken for submissions."""
    one, other = submissions.resolve(), results.resolve()
    if submissions.is_dir() and (one == other or one in other.parents or other in one.parents):
        raise UsageError(
            f"{results} and {submissions} are in one another; choose a folder beside {submissions} for the results."
        )


def _keep_earlier(intake_: Intake, store: Store) -> Iterator[str]:
    """Adds the learners whose submissions are stored but who are not in this export, and yields what a teacher should know."""
    submitters, people = store.submitters(), store.people()
    absent = sorted(submitters.keys() - set(intake_.learners))
    for learner in absent:
        intake_.people[learner] = people.get(learner, Person(learner, (learner,)))
    if absent:
        named = ", ".join(absent[:MOST_SHOWN]) + ("" if len(absent) <= MOST_SHOWN else ", ...")
        yield (
            f"{counted(len(absent), 'learner')} with earlier submissions in {store.folder} {'is' if len(absent) == 1 else 'are'} "
            f"not among these submissions, and the earlier ones count: {named}"
        )
    others = set[str]().union(*submitters.values()) - {problem.name for problem in intake_.problems}
    if others:
        labels = ", ".join(sorted(ProblemName(name).label for name in others))
        yield f"the tables have only the problems that are graded now, not the stored results of {labels}"


def _like_the_last(results: Path, options: BatchOptions) -> tuple[BatchOptions, list[str]]:
    """The options with the files of the last batch where this one names none, and notes on these: without them, marks change."""
    if not (results / DATABASE).is_file():
        return options, []
    try:
        stored = Results(results)
    except UsageError:  # of an earlier version, which remembered none
        return options, []
    notes, taken = list[str](), dict[str, Any]()
    try:
        for name in FILES:
            earlier = stored.fact(name)
            if earlier and not getattr(options, name) and name not in options.without:
                option = name.replace("_", "-")
                taken[name] = Path(earlier)
                notes.append(f"--{option} is {earlier}, as in the last batch; --without {option} leaves it out")
        for name in reveal.FACTS:
            earlier = stored.fact(name)
            if earlier and not getattr(options, name):
                taken[name] = earlier
                notes.append(f"--{name.replace('_', '-')} is {earlier}, as in the last batch")
        known = [] if options.known or KNOWN in options.without else json.loads(stored.fact(KNOWN) or "[]")
        if known:
            taken[KNOWN] = tuple(map(Path, known))
            notes.append(f"--known is {', '.join(known)}, as in the last batch; --without known leaves it out")
    finally:
        stored.close()
    return replace(options, **taken), notes


def _known(folder: Path, intake_: Intake, notes: list[str]) -> list[Known]:
    """The solutions in a folder of --known, in order."""
    names = [problem.name for problem in intake_.problems]
    found = sorted(reader.known(folder, names, notes.append), key=lambda one: (one.problem, one.name))
    if not found:
        notes.append(
            f"--known {folder} has no file for a problem that is graded now; files are named like {names[0]}.py"
        )
    return found


def _set_aside(folder: Path, written: Sequence[Path]) -> Iterator[str]:
    """Moves the gradebooks that an earlier batch wrote and this one did not, and says so: nobody takes them for these marks."""
    for path in gradebook.files_in(folder):
        if path not in written:
            files.replace(folder / gradebook.EARLIER / path.name, path.read_bytes())
            path.unlink()
            yield f"{path.name} is of an earlier batch, and is now {Path(gradebook.EARLIER) / path.name}."


def _without_effect(rules: Deadlines | None, directory: Directory, intake_: Intake) -> Iterator[str]:
    """What the deadlines say that changes nothing. Raises UsageError if a line is for one of several learners."""
    if rules is None:
        return
    if not any(item.submitted or item.late for item in intake_.items):
        yield "these submissions have no times, so none is late"
    lines = {
        "the extension": rules.extensions,
        "the number of late days": rules.own_late_days,
        "the excuse": rules.excused,
    }
    for what, by_name in lines.items():
        for name in by_name:
            if directory.find(name) is None:
                close = directory.near(name, 1)
                hint = f"; the nearest name is {close[0]!r}" if close else ""
                yield f"{what} for {name!r} is for no learner of this class{hint}"
    own = reveal.by_section(rules, list(intake_.people.values()))
    for problem in intake_.problems:
        if any(problem.label in dates for dates in rules.due_in.values()):
            without = [name for name, each in own.items() if each.due_for((), problem.name) is None]
            if without:
                named = ", ".join(without[:MOST_SHOWN]) + ", ..." * (len(without) > MOST_SHOWN)
                yield f"problem {problem.label} has no due date for the sections of {named}"


def _unused_lines(intake_: Intake) -> Iterator[str]:
    others = [file for file in intake_.unused if not file.is_for_another_problem]
    for learner, file, reason in summary.by_learner_unused((one.learner, one.file, one.reason) for one in others):
        yield f"Not used: {'/'.join(filter(None, [learner, file]))} {reason.rstrip('.')}."
    if other_problems := len(intake_.unused) - len(others):
        yield f"Not used: {counted(other_problems, 'file')} for problems that are not graded now; unused.csv has all."


def _settle(
    plan: run.Plan, directory: Directory, people: Sequence[Person], rules: Deadlines | None, best: bool
) -> Settle:
    names = {person.learner: directory.words(person) for person in people}
    own = reveal.by_section(rules, people)

    def settle(learner: str, attempts: list[deadlines.Attempt]) -> Mapping[str, Settled]:
        wanted = [attempt for attempt in attempts if (learner, attempt.problem) in plan.wanted]
        return deadlines.settle(wanted, names.get(learner, (learner,)), own.get(learner, rules), best=best)

    return settle


def _gradebooks(
    name: str, records: Sequence[Record], people: Sequence[Person], assignments: Sequence[Assignment], folder: Path
) -> Iterator[Path]:
    by_name = {person.learner: person for person in people}
    for path, marked in _raw_and_adjusted(records, folder, name):
        yield gradebook.GRADEBOOKS[name](marked, by_name, assignments, path)


def _participants(intake_: Intake, enrolled: Roster | None, enrollment: Enrollment | None) -> dict[str, str]:
    """The numbers by which an assignment in Moodle knows the learners, from its worksheet and its archive."""
    numbers = dict[str, str]()
    if enrolled and enrollment and enrolled.system == "Moodle":
        numbers = {learner: enrolled.ids(enrolled.rows[place])[0] for place, learner in enrollment.learner_of.items()}
    if "Moodle" in intake_.layout:
        numbers |= {name: person.ids[0] for name, person in intake_.people.items() if person.ids}
    return {learner: number for learner, number in numbers.items() if number.isdecimal()}


def _raw_and_adjusted(records: Sequence[Record], folder: Path, name: str) -> Iterator[tuple[Path, Sequence[Record]]]:
    """The file with the marks and, if lateness has changed any, one with the raw scores."""
    yield folder / f"{name}.csv", records
    if any(record.mark != record.score for record in records):
        yield folder / f"{name}-raw.csv", [replace(record, adjusted=None) for record in records]
