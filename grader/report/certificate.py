"""A learner's own record of what they passed, as one page of HTML that needs nothing else."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from string import Template

from commandline.text import counted
from grader.course import catalog
from grader.course.log import Progress
from grader.course.selection import selected
from grader.course.workspace import Workspace
from grader.problem import Problem

_MARK = '<meta name="generator" content="grade certificate">'
_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$mark
<title>$title</title>
<style>
  :root { color-scheme: light dark; --ink: light-dark(#1c1c1a, #e8e6e0); --quiet: light-dark(#5c5a54, #a9a69d);
          --paper: light-dark(#fdfcf9, #191918);
          --line: light-dark(#d8d5cc, #3a3936); --accent: light-dark(#0b5a6b, #7cc7d6); }
  body { margin: 0 auto; max-width: 46rem; padding: 3rem 1.25rem; background: var(--paper); color: var(--ink);
         font: 1rem/1.5 system-ui, sans-serif; }
  h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; }
  p.sum { font-size: 1.15rem; margin: 0 0 1.5rem; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
  caption { text-align: left; font-weight: 600; color: var(--accent); padding: 1.5rem 0 .25rem; }
  th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line);
           vertical-align: top; }
  thead th { color: var(--quiet); font-weight: 400; font-size: .85rem; }
  tbody th { font-weight: 400; width: 50%; }
  td.points { white-space: nowrap; }
  td small, footer { color: var(--quiet); font-size: .85rem; }
  footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
  @media print { body { padding: 0; max-width: none; } tr { break-inside: avoid; } }
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p class="sum">$summary</p>
$tables
</main>
<footer>
<p>This is the learner's own record. <code>grade certificate</code> wrote it on their machine, from a
file that they can edit.
It proves nothing to others. To check it, grade the files with a secret seed.</p>
<p>A digest identifies a passing file together with the course files that it imports. Times are in UTC.</p>
</footer>
</body>
</html>
""")
_HEADER = "<thead><tr><th scope=col>Problem</th><th scope=col>Points</th><th scope=col>Passed</th></tr></thead>"


def render(space: Workspace, name: str) -> str:
    """Returns the certificate for everything that was passed in a workspace. `name` may be empty."""
    progress = space.progress()
    passed = [problem for problem in catalog.problems() if progress.get(problem.name, Progress()).verdict == "PASS"]
    points = sum(progress[problem.name].score for problem in passed)
    possible = sum(problem.points for problem in catalog.problems())
    count, all_ = counted(len(passed), "problem"), len(catalog.problems())
    return _PAGE.substitute(
        mark=_MARK,
        title=escape(": ".join(filter(None, [selected().title, name]))),
        summary=f"{count} of {all_} passed, {points} of {possible} points.",
        tables="\n".join(_tables(passed, space, progress)),
    )


def is_certificate(path: Path) -> bool:
    """Returns whether a file was written from `render`."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return _MARK in file.read(1000)
    except OSError:
        return False


def _tables(passed: list[Problem], space: Workspace, progress: dict[str, Progress]) -> Iterator[str]:
    for part in dict.fromkeys(map(catalog.part_of, passed)):
        rows = [_row(p, space, progress[p.name]) for p in passed if catalog.part_of(p) == part]
        yield f"<table><caption>{escape(part)}</caption>{_HEADER}<tbody>\n{chr(10).join(rows)}\n</tbody></table>"


def _row(problem: Problem, space: Workspace, row: Progress) -> str:
    notes = []
    if row.help:
        notes.append(f"with {counted(row.help, 'hint')}")
    if row.given_up:
        notes.append("after seeing the reference")
    if (state := space.standing(problem).state) != "passed":
        notes.append(state)
    when = row.passed_at.replace("T", " ").removesuffix("+00:00") or "before passes were dated"
    details = [row.versions, f"digest {row.digest}" if row.digest else "", *notes]
    small = "".join(f"<br><small>{escape(text)}</small>" for text in details if text)
    return (
        f"<tr><th scope=row>{problem.label} {escape(problem.title)}</th>"
        f"<td class=points>{row.score} of {problem.points}</td><td>{escape(when)}{small}</td></tr>"
    )
