"""Creates the files of a new problem or of a whole new course, and lists the parts that its author must still write.

The folder `template` is a working course of one small problem: its entry returns 2 x + 1. A new problem gets copies of
its files, under another name. TODO comments mark the parts that are particular to a problem, so that `grade verify` has
no other complaints. A new course gets copies of the whole template, without the TODO comments.
"""

import json
import keyword
import re
from collections.abc import Mapping
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from grader.course import catalog
from grader.course.course import FRAMES, STYLES
from grader.course.selection import selected
from grader.problem import Problem

TEMPLATE = Path(__file__).with_name("template")
EXAMPLE = ProblemName("p01_double_and_add")  # the problem of the template
LONGEST_TITLE = 44  # characters: the column of `grade list`
_WORD = re.compile(r"(?:p?(\d{1,2})_)?((?!p\d)[a-z][a-z0-9_]*)")
_NUMBERED = re.compile(r"p(\d\d)_")
_TODO = re.compile(r"\bTODO: *(.+)")
_TODO_LINE = re.compile(r"^(# )?TODO: .*\n+", re.MULTILINE)


def create(word: str, title: str | None = None) -> tuple[ProblemName, list[Path]]:
    """Writes the files of a new problem; returns its name and their paths.

    `word` is a slug, which gets the next free number, or a number and a slug. Raises UsageError if one of them is taken
    or not valid, or if a file exists; then nothing is written.
    """
    root = selected().root
    if not (root / STYLES).is_dir():
        raise UsageError(
            f"{root / STYLES} is missing. Problems are written where the course has its tests, such as in a clone."
        )
    name = _name(word)
    title = _title(name.slug.replace("_", " ").capitalize() if title is None else title)
    texts = {root / path: text for path, text in texts_of(name, title).items()}
    try:
        for path, text in texts.items():
            files.write(path, text)
    except BaseException:
        for path in texts:
            path.unlink(missing_ok=True)
        if (root / "problems" / name).is_dir():
            (root / "problems" / name).rmdir()
        raise
    catalog.forget()
    return name, list(texts)


def texts_of(name: ProblemName, title: str) -> dict[str, str]:
    """Returns the texts of a new problem's files, by path below the course's folder."""
    values = {
        EXAMPLE: name,
        EXAMPLE.slug: name.slug,
        "Double and add one": title,
        f"Problem {EXAMPLE.label}": f"Problem {name.label}",
        f"# {EXAMPLE.label} ·": f"# {name.label} ·",
    }
    return {path: text for path, text in template(values).items() if name in path}


def create_course(folder: Path, name: str, title: str | None) -> list[Path]:
    """Writes the files of a new course to an empty folder; returns their paths below it.

    Raises UsageError if the name or the title is not valid, or if a file cannot be written.
    """
    words = re.findall(r"[a-z0-9]+", name.lower())
    if not words or not words[0][0].isalpha():
        raise UsageError(f"{name!r} is not a valid name of a course: begin it with a letter from a to z.")
    title = " ".join(words).capitalize() if title is None else title.strip()
    if not title or not title.isprintable():
        raise UsageError(f"{title!r} is not a valid title: write one line.")
    quoted = json.dumps(title, ensure_ascii=False)
    texts = template({'"My course"': quoted, "my-course": "-".join(words), "my_course": "_".join(words)})
    for path, text in texts.items():
        files.write(folder / path, finished(text))
    return list(map(Path, texts))


def finished(text: str) -> str:
    """Returns a text of the template without the lines of its TODO comments. The text that they describe stays."""
    return _TODO_LINE.sub("", text)


def template(values: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts of the template's files, by path. In both, each key of `values` is replaced by its value."""
    known = re.compile("|".join(re.escape(key) for key in sorted(values, key=len, reverse=True)))

    def filled(text: str) -> str:
        return known.sub(lambda match: values[match[0]], text)

    paths = (path for path in sorted(TEMPLATE.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return {filled(path.relative_to(TEMPLATE).as_posix()): filled(path.read_text(encoding="utf-8")) for path in paths}


def open_items(problem: Problem) -> list[str]:
    """Returns a line for each TODO in the problem's files."""
    items = []
    for path in _source_files(problem):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if match := _TODO.search(line):
                items.append(f"{path.name}, line {number}: still to write: {match[1].rstrip()}")
    return items


def _source_files(problem: Problem) -> list[Path]:
    """Returns the text files of a problem that an author writes."""
    own = sorted(path for path in problem.folder.glob("*") if path.suffix in (".md", ".py"))
    solution = sorted(problem.home.glob(f"solutions/{problem.name}.*"))
    return [*own, *solution, *catalog.styles(problem)]


def _name(word: str) -> ProblemName:
    """Returns the name of the new problem. Raises UsageError."""
    match = _WORD.fullmatch(word)
    if not match or keyword.iskeyword(match[2]):
        raise UsageError(
            f"{word!r} is not a valid slug: use lower-case letters, digits and underscores, such as demo or 98_demo; "
            "a keyword of Python cannot be one."
        )
    used = _used()
    if match[1]:
        number = int(match[1])
        if not 1 <= number <= 99:
            raise UsageError(f"{number} is not a valid number; problems are numbered from 1 to 99.")
    else:
        number = next((number for number in range(1, 100) if number not in used), 0)
        if not number:
            raise UsageError("All numbers from 1 to 99 are taken.")
    if number in used:
        raise UsageError(f"Problem {number:02} already exists: {used[number]}. Choose another number.")
    for other in catalog.names():
        if other.slug == match[2]:
            raise UsageError(f"The slug {match[2]} belongs to problem {other.label}; choose another slug.")
    return ProblemName(f"p{number:02}_{match[2]}")


def _used() -> dict[int, str]:
    """Returns a name or path for each number that is taken, relative to the course."""
    root = selected().root
    existing = (path for folder in (STYLES, FRAMES, "solutions", "problems") for path in (root / folder).glob("*"))
    numbered = ((_NUMBERED.match(path.name), path) for path in existing)
    taken = {int(match[1]): path.relative_to(root).as_posix() for match, path in numbered if match}
    return {listed.name.number: str(listed.name) for listed in selected().problems} | taken


def _title(title: str) -> str:
    """Returns the title, if it can stand in a docstring and in a heading. Raises UsageError."""
    if not title.strip() or not title.isprintable() or '"' in title or "\\" in title:
        raise UsageError(f"{title!r} is not a valid title: write one line without double quotes or backslashes.")
    if len(title) > LONGEST_TITLE:
        raise UsageError(f"The title has {len(title)} characters; at most {LONGEST_TITLE} fit in `grade list`.")
    return title.strip()
