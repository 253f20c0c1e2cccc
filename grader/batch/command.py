"""`grade batch`: from the submissions of a class to tables, gradebooks and a summary."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from commandline.cores import usable_cores
from commandline.errors import CommandError, Interrupted, UsageError
from commandline.problem_name import ProblemName
from commandline.progress import progress
from commandline.text import counted, one_line
from grader.batch import (
    cost_records,
    deadlines,
    feedback,
    groups,
    identity,
    intake,
    marks,
    outputs,
    reader,
    recognize,
    regrades,
    reveal,
    roster,
    run,
    summary,
)
from grader.batch.deadlines import Deadlines, Settled
from grader.batch.faults import Faults
from grader.batch.gradebook import Assignment
from grader.batch.identity import Directory
from grader.batch.intake import Intake
from grader.batch.options import BatchOptions
from grader.batch.records import Known, Person
from grader.batch.results import DATABASE, Results
from grader.batch.roster import Enrollment, Roster
from grader.batch.store import Settle, Store
from grader.batch.tasks import Graded, Task
from grader.course import catalog
from grader.course.seed import create_seed, read_seed
from grader.isolation import scratch
from grader.report import redacted

SEED, LOG = "seed.txt", "internal-errors.log"
FILES = ("seed_file", "deadlines", "roster", "groups")  # options that decide marks; a results folder remembers them
KNOWN = "known"  # the option whose folders it remembers, too
MOST_SHOWN = 20  # learners in a note


def batch(submissions: Path, results: Path, options: BatchOptions) -> Iterator[str]:
    """Grades new and changed submissions, writes the results, and yields lines for the terminal. Raises
    CommandError."""
    _require_consistent(options)
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
    with ExitStack() as opened:
        with reader.kept():
            intake_ = intake.read(submissions, catalog.select(options.problems) if options.problems else None, faults)
            yield (
                f"{counted(len(intake_.learners), 'learner')} ({intake_.layout}), "
                f"{counted(len(intake_.problems), 'problem')}, {counted(len(intake_.items), 'file')}."
            )
            left_out = list[str]()
            known = [one for folder in options.known for one in _known(folder, intake_, left_out)]
            opened.callback(scratch.sweep)
            store = opened.enter_context(closing(Store(results)))
            name = options.name or submissions.resolve().name
            steps = _Batch(name, options, store, intake_, rules, enrolled, faults, known, left_out)
            yield from steps.prepare()
        yield from steps.carry_out()
    if faults.count:
        raise CommandError(
            f"{counted(faults.count, 'internal error')} of the grader; {faults.log} has the tracebacks. Please report "
            "them. All other results are complete. Rerun the command to grade these submissions again."
        )


class _Batch:
    """The steps of one batch, in order. Each step yields lines for the terminal, and stores its results for the next
    one."""

    def __init__(
        self,
        name: str,
        options: BatchOptions,
        store: Store,
        intake_: Intake,
        rules: Deadlines | None,
        enrolled: Roster | None,
        faults: Faults,
        known: Sequence[Known],
        left_out: Sequence[str],
    ) -> None:
        self.name, self.options, self.store, self.intake = name, options, store, intake_
        self.rules, self.enrolled, self.faults = rules, enrolled, faults
        self.known, self.left_out = known, left_out

    def prepare(self) -> Iterator[str]:
        """Takes the steps before the gradings."""
        yield from self._identify()
        yield from self._plan()

    def carry_out(self) -> Iterator[str]:
        """Grades, and takes the steps after that."""
        self._grade()
        yield from self._publish()
        yield from map(str, self.store.write_tables())
        written = outputs.Outputs(self.options, self.store, self.intake, self.rules, self.enrollment, self.faults)
        yield from written.write_gradebooks(self.enrolled)
        yield from written.write_summary()
        explained = self._explained(written) if self.options.show_cases else {}
        yield from written.write_feedback(explained, self.participants)
        if self.options.records:
            yield from cost_records.write(self.store, self.seed)
        yield written.verdicts()

    def _identify(self) -> Iterator[str]:
        """Identifies the learners from the intake, the roster, the groups and the stored results."""
        yield from (f"Note: {note}." for note in _follow_moves(self.store))
        if self.options.groups:
            self.intake.notes += groups.apply(groups.read(self.options.groups), self.intake)
        notes = [*identity.recognize(self.intake, self.store), *_keep_earlier(self.intake, self.store)]
        self.enrollment = roster.enroll(self.enrolled, self.intake) if self.enrolled else None
        if self.enrollment:
            for person, learner in self.enrollment.joined:
                self.store.join(person.learner, learner, person.ids[:1], "they are one student of the roster")
            notes += self.enrollment.notes
        self.people = list(self.intake.people.values())
        self.participants = _participants(self.intake, self.enrolled, self.enrollment)
        if feedback.FORMAT in self.options.formats and not self.participants:
            raise UsageError(
                "--format moodle needs the participants' numbers: grade Moodle's archive of submissions, or give its "
                "grading worksheet with --roster."
            )
        self.directory = Directory(self.people)
        notes += self.left_out[:MOST_SHOWN]
        if len(self.left_out) > MOST_SHOWN:
            notes.append(f"{len(self.left_out) - MOST_SHOWN:,} more known files are not compared")
        notes += _without_effect(self.rules, self.directory, self.intake)
        yield from (f"Note: {note}." for note in (*self.intake.notes, *notes))
        yield from _unused_lines(self.intake)

    def _plan(self) -> Iterator[str]:
        """Compares the submissions with the stored results, and plans the gradings."""
        options, store = self.options, self.store
        to_regrade = [
            *(regrades.of_learner(word, self.directory, self.intake) for word in options.regrade),
            *(regrades.of_check(number, check, self.intake) for number, check in options.regrade_checks),
        ]
        seed_file = options.seed_file or store.folder / SEED
        if options.seed_file is None:
            create_seed(seed_file)
        yield (
            f"The hidden cases are drawn with the seed in {seed_file}, by NumPy {version('numpy')} and JAX "
            f"{version('jax')}."
        )
        self.seed = read_seed(seed_file)
        self.grounds = marks.Grounds.of(self.intake.problems, self.seed, options.timeout, self.rules, best=options.best)
        self.causes = self.grounds.changed(store)
        if "seed" in self.causes.names:
            yield "Note: existing results are from another seed and will be regraded."
        store.publish_new()  # those of an earlier version, which remembered none
        regrades.record(store, to_regrade, options.because)
        self.requested = store.regrades()
        self.plan = run.plan(self.intake, store, self.seed, options.timeout, options.least)
        if again := self.causes.graded_again():
            yield (
                f"Note: {marks.SAID['semantics']} since problem {', '.join(again)} was graded, so its results are "
                "graded again."
            )
        how = f", of which {self.plan.repeated} repeat the code of another" if self.plan.repeated else ""
        left = f"Not handed in: {self.plan.missing}. Unreadable: {self.plan.unreadable}."
        yield f"To grade: {self.plan.total}{how}. Unchanged: {self.plan.unchanged}. {left}"

    def _grade(self) -> None:
        """Grades the submissions of the plan, and stores each result when it arrives."""
        graded = _grade(self.plan.tasks, self.options, self.faults)
        _remember_about(self.store, self.name, self.rules)
        unused = [(file.learner, file.file, file.reason) for file in self.intake.unused]
        self.store.remember_intake(self.people, unused)
        settle = _settle(self.plan, self.directory, self.people, self.rules, self.options.best)
        with progress("grading", unit="submissions", total=self.plan.total) as advance:
            try:
                run.carry_out(self.plan, self.store, settle, graded, advance, self.faults)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"Interrupted with {self.store.saved()} of {len(self.plan.wanted)} results saved. Rerun the "
                    "command to resume."
                ) from None

    def _publish(self) -> Iterator[str]:
        """Publishes the marks, lists those that changed without a new submission, and stores the facts that they depend
        on."""
        done = regrades.carried_out(self.requested, self.store.regrades())
        changes = marks.publish(self.store, self.causes, done, self.options.keeping, best=self.options.best)
        self.grounds.remember(self.store)
        for name in FILES:
            path = getattr(self.options, name)
            self.store.remember(name, str(path.resolve()) if path else "")
        self.store.remember(KNOWN, json.dumps([str(folder.resolve()) for folder in self.options.known]))
        self.store.remember_known(self.known)
        for name in reveal.FACTS:
            self.store.remember(name, getattr(self.options, name) or "")
        yield from regrades.lines(done)
        yield from marks.lines(changes)

    def _explained(self, written: outputs.Outputs) -> dict[tuple[str, str], str]:
        """Returns the articles on the failing cases that may be shown, by learner and problem."""
        options = self.options
        tasks = feedback.tasks(self.store, self.seed, options.timeout, options.least)
        to_explain = [task for task in tasks if written.tells[task.learner, task.problem] == reveal.ADVICE]
        explained = _grade(to_explain, options, self.faults)
        with progress("explaining", unit="failures", total=len(to_explain)) as advance:
            return feedback.articles(explained, written.records, advance)


def _follow_moves(store: Store) -> Iterator[str]:
    """Renames the problems of stored results that the course has moved, found by the slug. Yields a sentence on
    each."""
    found = {name: recognize.present_name(name) for name in store.problems()}
    for name, present in found.items():
        if not present or present == name:
            continue
        store.move(name, present)
        problem = catalog.load(present)
        yield (
            f"problem {ProblemName(name).label} is problem {problem.label} now and keeps its results. In gradebooks it "
            f"is called {Assignment.of(problem).title!r}: rename its assignment in the course system before you import "
            "one"
        )


def _require_consistent(options: BatchOptions) -> None:
    """Raises UsageError if an option lacks the one that it needs."""
    if bool(options.regrade or options.regrade_checks) != bool(options.because.strip()):
        raise UsageError(
            "--regrade and --regrade-check need --because with the reason, and --because needs one of these."
        )
    if options.show_cases and not (options.feedback or feedback.FORMAT in options.formats):
        raise UsageError("--show-cases needs --feedback with the folder for the pages.")
    if options.problems is not None and not options.problems.strip():
        raise UsageError("--problems is empty; name problems such as 01-03, or leave the option out.")


def _grade(to_grade: Sequence[Task], options: BatchOptions, faults: Faults) -> Iterator[tuple[Task, Graded | str]]:
    """Grades on the cluster if there is one, else on this machine."""
    if options.scheduler:
        return run.on_cluster(to_grade, options.scheduler, faults)
    return run.here(to_grade, options.jobs or usable_cores(), faults)


def _remember_about(store: Store, name: str, rules: Deadlines | None) -> None:
    """Stores the facts about the class that its pages show."""
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
    """Adds the learners whose submissions are stored but who are not in this export, and yields notes for the
    teacher."""
    submitters, people = store.submitters(), store.people()
    absent = sorted(submitters.keys() - set(intake_.learners))
    for learner in absent:
        intake_.people[learner] = people.get(learner, Person(learner, (learner,)))
    if absent:
        named = ", ".join(absent[:MOST_SHOWN]) + ("" if len(absent) <= MOST_SHOWN else ", ...")
        yield (
            f"{counted(len(absent), 'learner')} with earlier submissions in {store.folder} "
            f"{'is' if len(absent) == 1 else 'are'} not among these submissions, and the earlier ones count: {named}"
        )
    others = set[str]().union(*submitters.values()) - {problem.name for problem in intake_.problems}
    if others:
        labels = ", ".join(sorted(ProblemName(name).label for name in others))
        yield f"the tables have only the problems that are graded now, not the stored results of {labels}"


def _like_the_last(results: Path, options: BatchOptions) -> tuple[BatchOptions, list[str]]:
    """Returns the options with the files of the last batch where this one names none, and notes on these: without them,
    marks change."""
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
    """Returns the solutions in a folder of --known, in order."""
    names = [problem.name for problem in intake_.problems]
    found = sorted(reader.known(folder, names, notes.append), key=lambda one: (one.problem, one.name))
    if not found:
        notes.append(
            f"--known {folder} has no file for a problem that is graded now; files are named like {names[0]}.py"
        )
    return found


def _without_effect(rules: Deadlines | None, directory: Directory, intake_: Intake) -> Iterator[str]:
    """Yields a sentence on each rule of the deadlines that changes nothing. Raises UsageError if a rule names a word
    that several learners match."""
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


def _participants(intake_: Intake, enrolled: Roster | None, enrollment: Enrollment | None) -> dict[str, str]:
    """Returns the numbers by which an assignment in Moodle knows the learners, from its worksheet and its archive."""
    numbers = dict[str, str]()
    if enrolled and enrollment and enrolled.system == "Moodle":
        numbers = {learner: enrolled.ids(enrolled.rows[place])[0] for place, learner in enrollment.learner_of.items()}
    if "Moodle" in intake_.layout:
        numbers |= {name: person.ids[0] for name, person in intake_.people.items() if person.ids}
    return {learner: number for learner, number in numbers.items() if number.isdecimal()}
