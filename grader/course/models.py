"""The models of today: what each is made of, and the problems of a course that teach its parts.

They stand in `problems/models.md`, a section with a table for each model. A row names a part, what it is in this model,
and the numbers of the problems that teach it.
"""

import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.course import catalog, selection

FILE = "models.md"
TITLE = "The models of today"
_SECTION = re.compile(r"^## (.+)\n\n(.+(?:\n.+)*)\n\n((?:\|.*\n?)+)", re.MULTILINE)
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A part of a model.

    Attributes:
        name: What it is called.
        here: What it is in this model, as Markdown.
        problems: The names of the problems that teach it, of those that the selected course has.
    """

    name: str
    here: str
    problems: tuple[ProblemName, ...]

    def is_known(self, passed: Set[str]) -> bool:
        """Returns whether the problems that teach it are among those that were passed, by name."""
        return bool(self.problems) and {*map(str, self.problems)} <= passed


@dataclass(frozen=True)
class Model:
    """A model.

    Attributes:
        name: Its name.
        source: Where its sizes come from, as Markdown.
        parts: Its parts.
    """

    name: str
    source: str
    parts: tuple[Part, ...]

    def known(self, passed: Set[str]) -> int:
        """Returns how many of its parts a learner knows who has passed these problems."""
        return sum(part.is_known(passed) for part in self.parts)


def path() -> Path:
    """Returns the file of the models of the selected course. A course need not have one."""
    return selection.selected().root / "problems" / FILE


def every() -> list[Model]:
    """Returns the models in the order of the file; nothing if the selected course has none."""
    if not path().is_file():
        return []
    by_label = {name.label: name for name in catalog.names()}

    def part(name: str, here: str, numbers: str) -> Part:
        return Part(name, here, tuple(by_label[each] for each in re.findall(r"\d\d", numbers) if each in by_label))

    return [
        Model(title, " ".join(source.split()), tuple(part(*row) for row in _ROW.findall(table)[1:]))
        for title, source, table in _SECTION.findall(catalog.text_of(path()))
    ]


def find(word: str) -> Model:
    """Returns the model with that name. Raises UsageError, which suggests the nearest one, if there is none."""
    by_name = {model.name.casefold(): model for model in every()}
    if word.casefold() in by_name:
        return by_name[word.casefold()]
    close = nearest(word, [model.name for model in by_name.values()])
    hint = f"Did you mean {close[0]!r}?" if close else "`grade models` lists them."
    raise UsageError(f"There is no model {word!r}. {hint}")


def as_page(address: Callable[[ProblemName], str], passed: Set[str] | None = None) -> str:
    """Returns the models as a page for a browser, as Markdown. `address` returns that of a problem's page.

    With `passed`, the names of the problems that a learner has passed, the parts that these teach are ticked.
    """
    introduction = catalog.text_of(path()).partition("\n## ")[0].strip()
    sections = [introduction]
    for model in every():
        count = "" if passed is None else f" You know {model.known(passed)} of its {len(model.parts)} parts."
        rows = [
            f"| {'✓ ' if passed and part.is_known(passed) else ''}{part.name} | {part.here} | {_links(part, address)} |"
            for part in model.parts
        ]
        table = ["| Part | Here | Problem |", "|---|---|---|", *rows]
        sections += [f"## {model.name}", f"{model.source}{count}", "\n".join(table)]
    return "\n\n".join(sections) + "\n"


def _links(part: Part, address: Callable[[ProblemName], str]) -> str:
    return ", ".join(f"[{name.label}]({address(name)})" for name in part.problems) or "–"
