"""Creates the folder of a new course: sound as it stands, with one small problem to replace."""

import json
import re
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course import scaffold

_TODO = re.compile(r"^(# )?TODO: .*\n+", re.MULTILINE)


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
    quoted = json.dumps(title, ensure_ascii=False)
    texts = scaffold.template({'"My course"': quoted, "my-course": "-".join(words), "my_course": "_".join(words)})
    for path, text in texts.items():
        files.write(folder / path, finished(text))
    return list(map(Path, texts))


def finished(text: str) -> str:
    """A text of the template without its TODOs. What they are about stands below them."""
    return _TODO.sub("", text)
