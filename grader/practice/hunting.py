"""A hunt of a learner: the program, the answers so far, and the worth of each answer."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from commandline.errors import UsageError
from commandline.text import counted
from grader.course import catalog
from grader.course.log import Entry
from grader.course.workspace import Workspace
from grader.practice import hunts, symptoms
from grader.practice.hunts import Hunt, Program
from grader.practice.rename_variables import by_seed
from grader.practice.symptoms import Kind, Symptom
from grader.problem import Problem

FOLDER = "hunts"
LETTERS = "ABCD"


@dataclass
class UnderWay:
    """One hunt, as the log of the learner records it.

    Attributes:
        id: The id of its first entry in the log.
        problem: The problem's name.
        hunt: The id of the hunt in the course.
        seed: The seed of the variables' names.
        symptom: The symptom that was shown.
        kind: The kind of that symptom.
        lines: The lines that the learner answered.
        ideas: The ideas that the learner answered, counted from 0.
        hints: The number of hints seen.
        trials: The number of gradings of the mended program.
        ended: Whether the hunt has ended.
        earlier: The number of hunts before it with a symptom of this kind.
    """

    id: str
    problem: str
    hunt: str
    seed: str
    symptom: str
    kind: Kind
    lines: list[int] = field(default_factory=list)
    ideas: list[int] = field(default_factory=list)
    hints: int = 0
    trials: int = 0
    ended: bool = False
    earlier: int = 0

    def add(self, entry: Entry) -> None:
        """Takes in an answer."""
        self.lines += [entry.number("line")] if entry.number("line") else []
        self.ideas += [entry.number("idea") - 1] if entry.number("idea") else []
        self.hints = max(self.hints, entry.number("hints"))
        self.trials += bool(entry.text("verdict"))
        self.ended = self.ended or entry.kind == "hunted"


def recorded_hunts(entries: list[Entry]) -> list[UnderWay]:
    """Returns the hunts in a log, ended or not, in the order in which something was last noted of them.

    An answer may be dated before the hunt that it is about: by another machine, or with `--today`.
    """
    noted = [entry for entry in entries if entry.kind in ("hunting", "hunted")]
    found: dict[str, UnderWay] = {}
    for entry in noted:
        if entry.text("hunt"):
            kind = symptoms.by_name(entry.text("symptom_kind"))
            earlier = sum(other.kind is kind for other in found.values())
            found[entry.id] = UnderWay(
                entry.id, entry.problem, entry.text("hunt"), entry.text("seed"), entry.text("symptom"), kind,
                earlier=earlier,
            )  # fmt: skip
    for entry in noted:
        if (id_ := entry.text("begun") or entry.id) in found:
            found[id_] = found.pop(id_)  # the latest one last
            if entry.text("begun"):
                found[id_].add(entry)
    return list(found.values())


@dataclass(frozen=True)
class HuntSpace(Workspace):
    """The folder of a learner's hunts, beside the passed files, which it reads but never writes."""

    home: Workspace = field(kw_only=True)

    @classmethod
    def of(cls, home: Workspace) -> "HuntSpace":
        return cls(home.folder / FOLDER, home=home)

    @property
    def modules(self) -> Path:
        return self.home.folder

    def under_way(self, problem: Problem | None = None) -> UnderWay | None:
        """Returns the hunt that the learner last saw or answered and that has not ended, of a problem if one is
        named."""
        names = [problem.name] if problem else catalog.names()
        waiting = [each for each in recorded_hunts(self.home.entries()) if not each.ended and each.problem in names]
        return waiting[-1] if waiting else None

    def passed(self) -> list[Problem]:
        """Returns the problems with hunts to offer: those that were passed, where learners may read the reference."""
        progress = self.home.progress()
        done = {name for name, row in progress.items() if row.verdict == "PASS"}
        return [problem for problem in catalog.problems() if problem.name in done and catalog.shows_solution(problem)]

    def candidates(self, problem: Problem | None = None) -> list[Hunt]:
        """Returns the hunts to offer next, of a problem if one is named: the faults that the learner made first, those
        of the reference before those of other styles, and none that was hunted before. Raises UsageError."""
        passed = self.passed()
        if problem and problem not in passed:
            raise UsageError(
                f"You have not passed problem {problem.label}, and a hunt shows nearly its solution. Solve it first: "
                f"`grade problem {problem.label}`."
            )
        if not passed:
            raise UsageError(
                "You have not passed a problem yet. `grade next` suggests one; hunts come from passed ones."
            )
        earlier = recorded_hunts(self.home.entries())
        done, count = {each.hunt for each in earlier}, Counter(each.problem for each in earlier)
        mistakes = self.home.progress()
        order = sorted(passed, key=lambda each: (count[each.name], not mistakes[each.name].mistakes, each.number))
        for each in [problem] if problem else order:
            found = [hunt for hunt in hunts.of(each) if hunt.id not in done]
            made = mistakes[each.name].mistakes
            places = {id_: place for place, id_ in enumerate(by_seed([hunt.id for hunt in found], each.name))}
            found.sort(
                key=lambda hunt: (hunt.misconception.name not in made, hunt.base != hunts.REFERENCE, places[hunt.id])
            )
            if found:
                return found
        raise UsageError("You have hunted everything that there is. Pass more problems to get more.")

    def begin(self, program: Program, seed: str, symptom: Symptom) -> UnderWay:
        """Writes the program of a hunt, and notes it."""
        problem = program.hunt.problem
        self.put(problem, program.text)
        entry = self.home.record(
            "hunting",
            problem.name,
            hunt=program.hunt.id,
            seed=seed,
            symptom=symptom.text,
            symptom_kind=symptom.kind.name,
        )
        return recorded_hunts([entry])[0]

    def program(self, current: UnderWay) -> Program:
        """Returns the program of a hunt as it was given. Raises UsageError if the course no longer has it."""
        problem = catalog.load(current.problem)
        for hunt in hunts.of(problem):
            if hunt.id == current.hunt:
                return hunts.program(hunt, current.seed)
        self.note_end(current)
        raise UsageError("The course no longer has this hunt, so it has ended. `grade hunt` begins another one.")

    def answer_line(self, current: UnderWay, line: int) -> bool:
        """Returns whether the line is one of the fault. Raises UsageError if the program has no such line."""
        program = self.program(current)
        if line > len(program.text.splitlines()) and line not in program.fault:
            raise UsageError(f"The program has {len(program.text.splitlines())} lines; there is no line {line}.")
        self._note(current, line=line)
        return line in program.fault

    def answer_idea(self, current: UnderWay, number: int) -> bool:
        """Returns whether the idea, counted from 0, is the one behind the fault. Raises UsageError if there is no such
        idea."""
        program = self.program(current)
        if number >= len(program.ideas):
            raise UsageError(f"There are {len(program.ideas)} ideas: {', '.join(LETTERS[: len(program.ideas)])}.")
        self._note(current, idea=number + 1)
        return number == program.answer

    def next_question(self, current: UnderWay) -> str:
        """Returns the next hint: a question. Empty after the last."""
        if current.hints >= len(current.kind.questions):
            return ""
        question = current.kind.questions[current.hints]
        self._note(current, hints=current.hints + 1)
        return question

    def note_shown(self, current: UnderWay) -> None:
        """Notes that the learner sees this hunt: a bare answer is about it from now on."""
        latest = self.under_way()
        if latest is None or latest.id != current.id:
            self._note(current)

    def note_trial(self, current: UnderWay, verdict: str) -> None:
        self._note(current, verdict=verdict)

    def note_end(self, current: UnderWay, *, mended: bool = False) -> None:
        """Notes that the hunt has ended, and whether the program was mended."""
        self.home.record("hunted", current.problem, begun=current.id, mended=mended or None)

    def _note(self, current: UnderWay, **facts: object) -> None:
        current.add(self.home.record("hunting", current.problem, begun=current.id, **facts))


_LONGEST_MEND = 4  # times the length of a hunt's program


def is_rewrite(program: Program, text: str) -> bool:
    """Returns whether a mended program changes much more than the fault. One that is several times as long does: it is
    not compared."""
    if len(text) > _LONGEST_MEND * len(program.text):
        return True
    needed = hunts.changed_lines(program.text, program.correct)
    return hunts.changed_lines(program.text, text) > 2 * needed + 3


def solved_line(current: UnderWay, program: Program) -> bool:
    return any(line in program.fault for line in current.lines)


def solved_idea(current: UnderWay, program: Program) -> bool:
    return program.answer in current.ideas


def lesson(current: UnderWay, program: Program) -> list[str]:
    """Returns the lines to show after a hunt: the fault, the idea behind it, and how an experienced person finds it."""
    misconception, ways = program.hunt.misconception, current.kind.found
    lines = _tries([line in program.fault for line in current.lines])
    ideas = _tries([idea == program.answer for idea in current.ideas])
    return [
        f"The fault is in {_numbers(sorted(program.fault))}: {misconception.name}. {misconception.advice}",
        f"How an experienced person finds it: {ways[current.earlier % len(ways)]}",
        f"You needed {lines} for the line, {ideas} for the idea, and {counted(current.hints, 'question')}.",
    ]


def _tries(right: list[bool]) -> str:
    """Describes in words the number of answers up to the right one."""
    number = right.index(True) + 1 if True in right else len(right)
    return counted(number, "try").replace("trys", "tries")


def _numbers(lines: list[int]) -> str:
    """Returns the numbers of lines in words, those in a row as a range."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"line{'s' * (len(lines) > 1)} {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}"
