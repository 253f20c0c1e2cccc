"""Makes a book of the problems' pages: navigation by part, folded hints, drawings, MathML, and code that copies as code."""

import doctest
import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

from grader.course import catalog, page
from grader.course.selection import selected
from grader.paths import ROOT
from grader.problem import Problem

# Pages about the course itself. A learners' bundle may leave some of them out.
ABOUT = {
    "Learning": "learn.md",
    "For teachers": "teachers.md",
    "Grading a class: the rules": "classroom.md",
    "A course of your own": "courses.md",
    "The grader": "design.md",
    "Security": "security.md",
    "The trainer": "harness.md",
    "Practice": "practice.md",
    "Text of your own, several processes": "data.md",
    "The studio": "studio.md",
}


def on_config(config: Any) -> Any:
    """The title, and the navigation: home, the parts of the course, how it works."""
    config.site_name = selected().title
    parts: dict[str, list[dict[str, str]]] = {}
    for problem in catalog.problems():
        entry = {f"{problem.label} · {problem.title}": f"{problem.name}.md"}
        parts.setdefault(catalog.part_of(problem), []).append(entry)
    about = [{title: file} for title, file in ABOUT.items() if (Path(config.docs_dir) / file).is_file()]
    config.nav = [{"Home": "index.md"}, *({part: pages} for part, pages in parts.items())]
    config.nav += [{"How it works": about}] * _is_shipped()
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds a page for each problem. A course of a teacher's own has its own home page, and no pages about the grader."""
    for file in [] if _is_shipped() else [*files.documentation_pages()]:
        files.remove(file)
    if files.get_file_from_path("index.md") is None:
        files.append(File.generated(config, "index.md", content=_home()))
    for problem in catalog.problems():
        files.append(File.generated(config, f"{problem.name}.md", content=book_page(problem)))
    for path in page.EXPLORABLES:
        files.append(File.generated(config, path.name, abs_src_path=str(path)))
    return files


def _is_shipped() -> bool:
    return selected().root == ROOT


def _home() -> str:
    """The home page of another course: its `docs/index.md`, else its parts and problems."""
    own = selected().root / "docs" / "index.md"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    lines = [f"# {selected().title}"]
    for problem in catalog.problems():
        if (part := f"## {catalog.part_of(problem)}") not in lines:
            lines += ["", part, ""]
        lines.append(f"- [{problem.label} · {problem.title}]({problem.name}.md)")
    return "\n".join(lines) + "\n"


def book_page(problem: Problem) -> str:
    """The page with folded hints and links to the problems before and after it."""
    title, body = page.for_browser(problem).rstrip().split("\n", 1)
    place = ""
    if before := catalog.builds_on(problem):
        place += f"*Builds on {_links(before)}.* "
    if after := catalog.needed_for(problem):
        place += f"*Leads to {_links(after)}.*"
    folded = "\n\n".join(
        f'??? tip "Hint {number}"\n\n' + "\n".join(f"    {line}".rstrip() for line in hint.splitlines())
        for number, hint in enumerate(page.hints(problem), 1)
    )
    return "\n".join([title, "", place, body, "", "## Hints", "", folded, ""])


def _links(problems: list[Problem]) -> str:
    return ", ".join(f"[{problem.label} {problem.title}]({problem.name}.md)" for problem in problems)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Converts blocks of LaTeX to MathML, and marks examples as sessions of Python."""

    def formula(match: re.Match[str]) -> str:
        return "\n".join(f"<p>{convert(line, display='block')}</p>" for line in match[1].strip().splitlines())

    markdown = page.FORMULAS.sub(formula, markdown)
    return re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)


def on_page_content(content: str, **_: Any) -> str:
    """Lets the copy button of an example copy its code, without prompts and outputs."""

    def with_code(match: re.Match[str]) -> str:
        session = html.unescape(re.sub(r"<[^>]*>", "", match[2]))
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(session))
        return f'{match[1]} data-copy="{html.escape(code)}">{match[2]}' if code else match[0]

    return re.sub(r'(<div class="highlight")>(<pre>.*?</pre>)', with_code, content, flags=re.DOTALL)


def on_post_page(output: str, **_: Any) -> str:
    """Names the search for screen readers, which the theme forgets."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
