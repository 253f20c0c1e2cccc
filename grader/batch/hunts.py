"""Marks the hunts of a class: the line, the idea and the mend of each, a point for each of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from commandline.errors import UsageError
from commandline.text import counted, one_line
from grader.batch import archive, exports
from grader.batch.archive import RefusedFileError
from grader.batch.exports import Learner
from grader.batch.intake import expanded
from grader.batch.tables import write_csv
from grader.course import cases
from grader.isolation.level import Level
from grader.isolation.sandbox import ForkServer, Workers
from grader.judge import submission
from grader.practice import assigned, hunting, trial
from grader.practice.assigned import Answer
from grader.practice.hunting import LETTERS
from grader.practice.hunts import Program
from grader.problem import Problem

TABLE = "hunts.csv"
HEADER = ("learner", "sheet of", "hunt", "problem", "line", "idea", "mend", "points", "note")
MOST_BYTES = 1 << 16  # of a sheet
Row = tuple[str, str, str, str, int, int, int, int, str]


def mark(submissions: Path, results: Path, problems: Sequence[Problem], seed: int, least: Level) -> Iterator[str]:
    """Marks the sheets and programs of a class, writes a table, and yields lines for the terminal. Raises CommandError.

    Mended programs are graded on cases that are drawn from the seed.
    """
    export = exports.read(archive.files(submissions), archive=not submissions.is_dir())
    rows: list[Row] = []
    with closing(ForkServer()) as fork_server:
        for name in sorted(export.learners):
            own = list(_of_learner(name, export.learners[name], problems, seed, fork_server, least))
            yield f"{one_line(name)}: {sum(row[7] for row in own)} of {3 * len(own)} points"
            rows += own
    if not rows:
        raise UsageError(f"Nobody in {submissions} handed in a sheet: it must be called {assigned.SHEET}.")
    results.mkdir(parents=True, exist_ok=True)
    write_csv(results / TABLE, HEADER, rows)
    yield f"{counted(len(rows), 'hunt')} of {counted(len({row[0] for row in rows}), 'learner')}: {results / TABLE}"


def _of_learner(
    name: str, learner: Learner, problems: Sequence[Problem], seed: int, workers: Workers, least: Level
) -> Iterator[Row]:
    """A row for each hunt on the learner's sheet. The last sheet counts, if there are several."""
    files = {item.file.path.name: item.file for item in expanded(learner)}
    if assigned.SHEET not in files:
        return
    try:
        of, answers = assigned.answers(files[assigned.SHEET].read(MOST_BYTES).decode("utf-8-sig"))
    except (RefusedFileError, ValueError) as error:
        yield (name, "", "", "", 0, 0, 0, 0, f"the sheet cannot be read: {one_line(str(error))}")
        return
    seen: set[str] = set()
    for answer in answers:
        program = assigned.assigned(problems, len(answers), seed, of, answer)
        hunt = one_line(answer.file.removesuffix(".py"))
        if program is None or answer.id in seen:
            yield (name, one_line(of), hunt, "", 0, 0, 0, 0, "not a hunt of this learner")
            continue
        seen.add(answer.id)
        line = int(answer.line in program.fault)
        idea = int(answer.idea == LETTERS[program.answer])
        mend, note = _mend(answer, program, files, seed, workers, least)
        yield (name, one_line(of), hunt, program.hunt.problem.label, line, idea, mend, line + idea + mend, note)


def _mend(
    answer: Answer, program: Program, files: Mapping[str, archive.File], seed: int, workers: Workers, least: Level
) -> tuple[int, str]:
    """The point for the mend, and a note on why there is none."""
    problem, file = program.hunt.problem, files.get(answer.file)
    if file is None:
        return 0, f"no file {one_line(answer.file)}"
    try:
        text, _ = submission.text(problem, answer.file, file.read(submission.MAX_SIZE + 1))
    except (RefusedFileError, submission.UnreadableSubmissionError) as error:
        return 0, one_line(str(error))
    if hunting.is_rewrite(program, text):
        return 0, "a rewrite"
    source = trial.source_of(problem, text)
    drawn = cases.draw_all(problem, seed)
    failed = next(trial.failures(problem, source, workers, cases=drawn, least=least), None)
    return (0, f"fails: {failed.result.check.name}") if failed else (1, "")
