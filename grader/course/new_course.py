"""Creates the folder of a new course: sound as it stands, with one small problem to replace."""

import json
import re
from pathlib import Path
from string import Template

from commandline import files
from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from grader.course import scaffold
from grader.course.course import FILE

_EXAMPLE, _EXAMPLE_TITLE = ProblemName("p01_double_and_add"), "Double and add one"
# What the example says where a new problem has a TODO. The other TODOs leave no trace.
_WRITTEN = {
    "why this matters": "What does a problem of this course look like? This one is complete and small. Read it, then replace it.",
    "the ideas": "**Element by element.** Arithmetic on an array applies to each of its numbers, so the shape stays the same.",
    "the problem": "Double each number of the array and add one.",
    "the first hint": "Which comes first, doubling or adding?",
    "the second hint": "Multiply the whole array by 2. No loop is needed.",
    "the third hint": "`return 2 * x + 1`.",
}
_TODO = re.compile(r"^(?P<mark>.*?)(?P<comment># )?TODO: (?P<what>[^:\n]+).*(?P<end>\n+)", re.MULTILINE)


def fill(folder: Path, name: str, title: str | None) -> list[Path]:
    """Writes the files of a new course to an empty folder; returns their paths below it.

    Raises UsageError if the name or the title is not valid, or if a file cannot be written.
    """
    words = re.findall(r"[a-z0-9]+", name.lower())
    if not words or not words[0][0].isalpha():
        raise UsageError(f"{name!r} is not a valid name of a course: begin it with a letter from a to z.")
    title = " ".join(words).capitalize() if title is None else title.strip()
    if not title or not title.isprintable():
        raise UsageError(f"{title!r} is not a valid title: write one line.")
    values = {"title": json.dumps(title, ensure_ascii=False), "name": "-".join(words), "package": "_".join(words)}
    texts = {path: Template(text).substitute(values) for path, text in _FILES.items()}
    texts |= {path: _finished(text) for path, text in scaffold.texts_of(_EXAMPLE, _EXAMPLE_TITLE).items()}
    for path, text in texts.items():
        files.write(folder / path, text)
    return list(map(Path, texts))


def _finished(text: str) -> str:
    """A text of a scaffold, with what is still to write written."""

    def written(match: re.Match[str]) -> str:
        sentence = _WRITTEN.get(match["what"])
        return f"{match['mark']}{sentence}{match['end']}" if sentence else ""

    return _TODO.sub(written, text)


_COURSE = """# What the course consists of: its parts, and the problems of each in order, by the names of their folders.
# docs/courses.md of GPT Kata explains everything that can stand here.
title = $title
private = true  # learners are not shown solutions

[[part]]
title = "I. First steps"
problems = [
  "p01_double_and_add",
  # { problem = "p01_double_and_add", points = 8 },  its checks count twice
  # { include = "p04_layer_norm" },                  a problem of GPT Kata
]
"""

_PROJECT = """# To install the course for others: `pip install DIR`. Then `grade --course $name` selects it.
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
description = $title
requires-python = ">=3.11"
classifiers = ["Private :: Do Not Upload"]  # package indexes refuse it; remove this line to publish

[project.entry-points."gpt_kata.courses"]
$name = "$package"

[tool.setuptools]
packages = ["$package"]
package-dir = { $package = "." }
include-package-data = false

[tool.setuptools.package-data]
$package = ["course.toml", "problems/**", "solutions/**", "docs/**"]
"""

_INIT = """# The folder is a Python package, so that it can be installed. `grade` finds it by its entry point in pyproject.toml.
"""

_TEST = '''"""Every problem of this course is sound: run `pytest`."""

import subprocess
import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parent.parent


def test_every_problem_is_sound():
    command = [sys.executable, "-m", "grader", "--course", str(COURSE), "verify", "--seeds", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
'''

_IGNORED = """__pycache__/
build/
*.egg-info/
attempts/
"""

_FILES = {
    FILE: _COURSE,
    "pyproject.toml": _PROJECT,
    "__init__.py": _INIT,
    ".gitignore": _IGNORED,
    "tests/test_course.py": _TEST,
}
