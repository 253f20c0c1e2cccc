"""Hunts for a class: a folder with the programs and a sheet for the answers, the same for all or one for each
learner."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from commandline.text import counted, one_line
from grader.course import catalog
from grader.handout.pack import new_folder
from grader.isolation.sandbox import ForkServer
from grader.practice import assigned
from grader.problem import Problem

MOST = 20  # hunts of a learner


def hand_out(
    directory: Path, problems: Sequence[Problem], count: int, seed: int, learners: Sequence[str]
) -> Iterator[str]:
    """Creates the folder; yields a line for each learner. Without `learners`, all get the same hunts.

    Each program is run once, on public cases, so that the symptom on the sheet is true. Raises UsageError.
    """
    without = [problem.label for problem in problems if not catalog.has_solution(problem)]
    if without:
        raise UsageError(f"Hunts are made of references, and this copy of the course has none of {', '.join(without)}.")
    with new_folder(directory) as folder, closing(ForkServer()) as fork_server:
        for learner in learners or [""]:
            programs = list(assigned.choose(problems, count, seed, learner, fork_server))
            if len(programs) < count:
                raise UsageError(f"These problems have only {counted(len(programs), 'hunt')}; name more problems.")
            own = folder / learner if learner else folder
            own.mkdir(exist_ok=True)
            for number, (program, _) in enumerate(programs, 1):
                (own / assigned.file(number)).write_text(program.text, encoding="utf-8")
            (own / assigned.SHEET).write_text(assigned.sheet(learner, programs, seed), encoding="utf-8")
            labels = ", ".join(program.hunt.problem.label for program, _ in programs)
            yield f"{one_line(learner) or 'everybody'}: hunts in {labels}"


def read_learners(path: Path) -> list[str]:
    """Returns the learners in a text file, one in a line. Raises UsageError if one cannot be the name of a folder."""
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} {files.why_no_text(error)}.") from None
    for name in names:
        if "/" in name or "\\" in name or name in (".", "..") or not name.isprintable():
            raise UsageError(f"{path}: {name!r} cannot be the name of a folder; write one learner in a line.")
    return list(dict.fromkeys(names))
