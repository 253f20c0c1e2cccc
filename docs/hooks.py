"""Makes a book of the problems' pages: navigation by part, folded hints, drawings, MathML, and code that copies as
code; after them the glossary, to which the pages link, and the list of their sources."""

import doctest
import html
import re
from typing import Any

from mkdocs.structure.files import File, Files

from grader.course import catalog, glossary, models, page, sources
from grader.course.page import FORMULAS
from grader.course.selection import selected
from grader.paths import ROOT
from grader.problem import Problem
from grader.report.markdown_html import mathml

# The home page lists the documents: a heading of level 2 for each kind, and below it lines `- [Title](file.md): what it
# is`.
KIND = re.compile(r"^## (.+)\n(?:(?!## ).*\n)*", re.MULTILINE)
DOCUMENT = re.compile(r"^- \[(.+?)\]\((\w\S*\.md)\).*\n", re.MULTILINE)


def on_config(config: Any) -> Any:
    """The title."""
    config.site_name = selected().title
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds a page for each problem, the glossary, the sources, and the navigation: home, the parts of the course, the
    documents by kind, and what looks things up.

    A course of a teacher's own has its own home page, and no pages about the grader.
    """
    for file in [] if _is_shipped() else [*files.documentation_pages()]:
        files.remove(file)
    config.nav = [{"Home": "index.md"}]
    documents = _documents(files)
    if files.get_file_from_path("index.md") is None:
        _add(files, config, "index.md", _home())
    parts: dict[str, list[dict[str, str]]] = {}
    for problem in catalog.problems():
        entry = {f"{problem.label} · {problem.title}": _add(files, config, f"{problem.name}.md", book_page(problem))}
        parts.setdefault(catalog.part_of(problem), []).append(entry)
    looked_up = {}
    if glossary.entries():
        looked_up[glossary.TITLE] = _add(files, config, "glossary.md", glossary.as_page(lambda name: f"{name}.md"))
    if models.every():
        listed = files.get_file_from_path("models.md")
        if listed:
            files.remove(listed)  # it names problems by number
        name = _add(files, config, "models.md", models.as_page(lambda name: f"{name}.md"))
        looked_up |= {} if listed else {models.TITLE: name}
    looked_up["Sources"] = _add(files, config, "sources.md", sources.as_page())
    for path in page.EXPLORABLES:
        files.append(File.generated(config, path.name, abs_src_path=str(path)))
    config.nav += [{title: pages} for title, pages in (*parts.items(), *documents.items())]
    config.nav += [{title: file} for title, file in looked_up.items()]
    return files


def _add(files: Files, config: Any, name: str, content: str) -> str:
    """Adds a page to the book and returns its name."""
    files.append(File.generated(config, name, content=content))
    return name


def _documents(files: Files) -> dict[str, list[dict[str, str]]]:
    """The documents that the home page lists, by kind. A learners' bundle has none of them."""
    home = files.get_file_from_path("index.md")
    kinds = KIND.finditer(_without_missing(home.content_string, files)) if home else ()
    found = {kind[1]: [{title: file} for title, file in DOCUMENT.findall(kind[0])] for kind in kinds}
    return {kind: documents for kind, documents in found.items() if documents}


def _without_missing(home: str, files: Files) -> str:
    """The home page without the documents that are missing, and without the kinds of which all are missing."""

    def present(kind: re.Match[str]) -> str:
        text = DOCUMENT.sub(lambda line: line[0] if files.get_file_from_path(line[2]) else "", kind[0])
        return "" if DOCUMENT.search(kind[0]) and not DOCUMENT.search(text) else text

    return KIND.sub(present, home)


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
    title, body = glossary.linked(page.for_browser(problem), "glossary.html").rstrip().split("\n", 1)
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


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Converts blocks of LaTeX to MathML, marks examples as sessions of Python, and lists only documents that are
    there."""

    def formula(match: re.Match[str]) -> str:
        return "\n".join(f"<p>{mathml(line)}</p>" for line in match[1].strip().splitlines())

    if page.file.src_uri == "index.md":
        markdown = _without_missing(markdown, files)
    markdown = FORMULAS.sub(formula, markdown)
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
