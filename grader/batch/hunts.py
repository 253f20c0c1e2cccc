"""Marks the hunts of a class: the line, the idea and the mend of each, a point for each of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from commandline.errors import UsageError
from commandline.text import counted, one_line
from grader.batch import reader
from grader.batch.faults import MESSAGE
from grader.batch.identity import Directory
from grader.batch.records import Person
from grader.batch.tables import write_csv
from grader.course import cases
from grader.isolation.level import Level
from grader.isolation.sandbox import ForkServer, Workers
from grader.practice import assigned, hunting, trial
from grader.practice.assigned import Answer
from grader.practice.hunting import LETTERS
from grader.practice.hunts import Program
from grader.problem import Problem

TABLE = "hunts.csv"
HEADER = ("learner", "sheet of", "hunt", "problem", "line", "idea", "mend", "points", "note")
Row = tuple[str, str, str, str, int, int, int, int, str]


def mark(submissions: Path, results: Path, problems: Sequence[Problem], seed: int, least: Level) -> Iterator[str]:
    """Marks the sheets and programs of a class, writes a table, and yields lines for the terminal. Raises CommandError.

    Mended programs are graded on cases that are drawn from the seed.
    """
    first, *found = reader.messages(submissions, "sheets", [])
    sheets = {message["learner"]: message for message in found}
    people = {name: Person(name, tuple(ids), tuple(canvas)) for name, ids, canvas in first["people"]}
    others = _sheets_of_others(people, {name: (one["value"] or {}).get("of", "") for name, one in sheets.items()})
    rows: list[Row] = []
    with closing(ForkServer()) as fork_server:
        for name in sorted(sheets):
            own = list(_of_learner(name, sheets[name], others.get(name, ""), problems, seed, fork_server, least))
            yield f"{one_line(name)}: {sum(row[7] for row in own)} of {3 * len(own)} points"
            rows += own
    if not rows:
        raise UsageError(f"Nobody in {submissions} handed in a sheet: it must be called {assigned.SHEET}.")
    results.mkdir(parents=True, exist_ok=True)
    write_csv(results / TABLE, HEADER, rows)
    yield f"{counted(len(rows), 'hunt')} of {counted(len({row[0] for row in rows}), 'learner')}: {results / TABLE}"


def _sheets_of_others(people: Mapping[str, Person], of: Mapping[str, str]) -> dict[str, str]:
    """Why a learner's sheet is somebody else's, by learner: it names another one, or several handed it in."""
    directory, told = Directory(people.values()), dict[str, str]()
    for name, named in of.items():
        if named in directory:
            if people[name] not in directory.meant(named):
                told[name] = f"the sheet is that of {one_line(named)}"
        elif named and (same := sorted(one_line(other) for other, its in of.items() if its == named and other != name)):
            told[name] = f"the sheet of {one_line(named)} was handed in by {', '.join(same)}, too"
    return told


def _of_learner(
    name: str,
    message: Mapping[str, Any],
    others: str,
    problems: Sequence[Problem],
    seed: int,
    workers: Workers,
    least: Level,
) -> Iterator[Row]:
    """A row for each hunt on the learner's sheet."""
    sheet = message["value"] or {}
    unreadable = MESSAGE if message["fault"] else message["failed"] or sheet.get("unreadable", "")
    if unreadable:
        yield (name, "", "", "", 0, 0, 0, 0, f"the sheet cannot be read: {unreadable}")
    if "of" not in sheet:
        return
    of, seen = sheet["of"], set[str]()
    for answer in (Answer(*row) for row in sheet["answers"]):
        hunt = one_line(answer.file.removesuffix(".py"))
        program = None if others else assigned.assigned(problems, seed, of, answer)
        if program is None or answer.id in seen:
            yield (name, one_line(of), hunt, "", 0, 0, 0, 0, others or "not a hunt of this learner")
            continue
        seen.add(answer.id)
        line = int(answer.line in program.fault)
        idea = int(answer.idea == LETTERS[program.answer])
        mend, note = _mend(answer, program, sheet, seed, workers, least)
        yield (name, one_line(of), hunt, program.hunt.problem.label, line, idea, mend, line + idea + mend, note)


def _mend(
    answer: Answer, program: Program, sheet: Mapping[str, Any], seed: int, workers: Workers, least: Level
) -> tuple[int, str]:
    """The point for the mend, and a note on why there is none."""
    problem, text = program.hunt.problem, sheet["texts"].get(answer.file)
    if text is None:
        return 0, sheet["refused"].get(answer.file, f"no file {one_line(answer.file)}")
    if hunting.is_rewrite(program, text):
        return 0, "a rewrite"
    source = trial.source_of(problem, text)
    drawn = cases.draw_all(problem, seed)
    failed = next(trial.failures(problem, source, workers, cases=drawn, least=least), None)
    return (0, f"fails: {failed.result.check.name}") if failed else (1, "")
