"""Hunts that a teacher assigns: which ones a learner gets, and the sheet with the answers."""

import hmac
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from grader.isolation.sandbox import Workers
from grader.practice import hunt_soundness, hunts, symptoms
from grader.practice.hunting import LETTERS
from grader.practice.hunts import Hunt, Program
from grader.practice.rename_variables import by_seed
from grader.problem import Problem

SHEET = "answers.toml"


@dataclass(frozen=True)
class Answer:
    """A learner's answers to one hunt: the line, or 0 without one, and the letter of the idea, or an empty text.

    `id` is that of the hunt with a mark of the seed, which says that this learner was given it.
    """

    file: str
    id: str = ""
    line: int = 0
    idea: str = ""


def order(problems: Sequence[Problem], seed: int, learner: str) -> list[Hunt]:
    """Returns all hunts of these problems in the order in which a learner gets them. The same for all if `learner` is
    empty."""
    found = {hunt.id: hunt for problem in problems for hunt in hunts.of(problem, styles=False)}
    return [found[id_] for id_ in by_seed(found, f"{seed} {learner}")]


def names_seed(seed: int, learner: str) -> str:
    """Returns the seed of the names in a learner's hunts."""
    return f"{seed:x} {learner}"


def choose(
    problems: Sequence[Problem], count: int, seed: int, learner: str, workers: Workers
) -> Iterator[tuple[Program, str]]:
    """Yields the programs of a learner's hunts, with their symptoms. Each is run, on public cases."""
    found = hunt_soundness.offered(order(problems, seed, learner), names_seed(seed, learner), workers)
    for program, failed in islice(found, count):
        yield program, symptoms.of(*failed).text


def assigned(problems: Sequence[Problem], seed: int, learner: str, answer: Answer) -> Program | None:
    """Returns the program of the hunt that an answer is about; None if the learner was not given it."""
    mine = {marked(hunt.id, seed, learner): hunt for hunt in order(problems, seed, learner)}
    hunt = mine.get(answer.id)
    return hunts.program(hunt, names_seed(seed, learner)) if hunt else None


def marked(hunt: str, seed: int, learner: str) -> str:
    """Returns the id of a hunt as it stands on a learner's sheet. Ids of hunts are public; the mark is known to the
    seed only."""
    mark = hmac.digest(str(seed).encode(), f"{hunt} {learner}".encode(), "sha256")
    return f"{hunt}-{mark[:6].hex()}"


def file(number: int) -> str:
    return f"hunt_{number}.py"


def sheet(learner: str, programs: Sequence[tuple[Program, str]], seed: int) -> str:
    """Returns the text of the sheet: a table for each hunt, with what its owner sees and the ideas as comments."""
    lines = [
        "# For each hunt: the number of the wrong line, the letter of the idea, and the mended program in its file.",
        "# Change only what is wrong: a rewrite gets no point.",
        f"learner = {json.dumps(learner, ensure_ascii=False)}",
    ]
    for number, (program, symptom) in enumerate(programs, 1):
        problem = program.hunt.problem
        lines += ["", f"[{file(number)[:-3]}]  # problem {problem.label}, {problem.title}"]
        lines += [f"# {symptom}", f'id = "{marked(program.hunt.id, seed, learner)}"', "line = 0"]
        lines += [f"#   {letter}  {idea}" for letter, idea in zip(LETTERS, program.ideas, strict=False)]
        lines += ['idea = ""']
    return "\n".join(lines) + "\n"


def answers(text: str) -> tuple[str, list[Answer]]:
    """Returns the learner that a sheet is for, and the answers on it. Raises ValueError if the sheet is not TOML."""
    found, tables = [], tomllib.loads(text)
    learner = tables.pop("learner", "")
    for name, values in tables.items():
        if not isinstance(values, dict):
            continue
        line, idea = values.get("line"), values.get("idea")
        found.append(
            Answer(
                f"{name}.py", str(values.get("id", "")), line if type(line) is int else 0,
                idea.strip().upper()[:1] if isinstance(idea, str) else "",
            )
        )  # fmt: skip
    return learner if isinstance(learner, str) else "", found
