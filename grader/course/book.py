"""The course as a book of web pages, which open from disk."""

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path

from commandline.errors import UsageError
from commandline.folders import cache_folder
from grader.course import glossary, models, page, selection
from grader.course.course import FILE
from grader.errors import CourseError
from grader.paths import ROOT

_CONFIG = ROOT / "mkdocs.yml"
# The files that a learners' bundle needs for the book: no pages about the grader itself.
FILES = ("mkdocs.yml", "docs/book.css", "docs/hooks.py", "docs/iframe-worker.js", "docs/index.md")
_SOURCES = ("*.md", "*.svg", "problem.py")  # of a problem: what its page is made of
_DOCUMENTED = ("*.py", "wire/*.py", "worker/*.py")  # of the grader: what the authoring reference is made of


def is_available() -> bool:
    """Returns whether this copy of the course has the files from which the book is made."""
    return _CONFIG.is_file()


def cached() -> Path:
    """Returns the folder of the book of these very pages in the user's cache. It does not exist before the book is
    built."""
    total = hashlib.sha256()
    documents = (path for path in (ROOT / "docs").rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    course = selection.selected()
    pages = (path for pattern in _SOURCES for listed in course.problems for path in listed.folder.glob(pattern))
    of_course = [path for path in (course.root / FILE, glossary.path(), models.path()) if path.is_file()]
    modules = (path for pattern in _DOCUMENTED for path in sorted((ROOT / "grader").glob(pattern)))
    for path in [*sorted([_CONFIG, *documents]), *page.EXPLORABLES, *of_course, *pages, *modules]:
        data = path.read_bytes()
        total.update(f"{path.parent.name}/{path.name} {len(data)}\n".encode() + data)
    return cache_folder("GRADE_CACHE") / "book" / total.hexdigest()[:16]


def build(folder: Path) -> None:
    """Writes the book to a folder, whole or not at all, in place of what the folder held.

    Raises CourseError if a page is broken, and UsageError if the folder cannot be written.
    """
    from mkdocs.commands import build as mkdocs_build
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
            site = Path(temporary).resolve() / "book"  # mkdocs takes a relative path from the folder of its settings
            config = load_config(str(_CONFIG), site_dir=str(site), strict=True)
            config.plugins.on_startup(command="build", dirty=False)
            mkdocs_build.build(config)
            if folder.exists():
                shutil.rmtree(folder)
            site.rename(folder)
    except MkDocsException as error:
        raise CourseError(f"The book cannot be built: {error}") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}.") from None


def forget_others(folder: Path) -> None:
    """Removes the books of earlier pages beside this one from the cache."""
    for other in folder.parent.iterdir():
        if other != folder and not other.name.startswith("."):
            with contextlib.suppress(OSError):
                shutil.rmtree(other)
