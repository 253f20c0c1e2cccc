"""The texts of watch mode, as lines with ANSI styles: for the screen and for terminals that only print."""

from collections.abc import Collection, Mapping, Sequence

import click

from commandline import terminal
from commandline.terminal import NARROWEST, WIDEST, wrap
from grader.course import catalog, page
from grader.course.workspace import Workspace
from grader.exhibits import Exhibit
from grader.judge.verdict import Report, Verdict
from grader.problem import Problem
from grader.report import exhibits_terminal
from grader.report import terminal as report_terminal
from grader.watch.watch_play import Shown
from grader.watch.watch_session import State

_BY_VERDICT = {Verdict.PASS: "green", Verdict.NOT_ATTEMPTED: "yellow"}


def header(state: State, file: str, width: int) -> list[str]:
    """Returns the problem, the entries to write, and the state of the grading."""
    problem = state.problem
    title = wrap(f"Problem {problem.label}, {problem.title}", width)
    entries = " and ".join(f"`{entry.name}`" for entry in problem.entries)
    task = wrap(f"Write {entries} in {file}.", width)
    return [*(bold(line) for line in title), *task, status(state, width)]


def status(state: State, width: int) -> str:
    """Returns one line of at most `width` columns on the state of the grading."""
    if state.grading:
        count = f" {len(state.checks)} of {len(state.problem.checks)} checks" if state.checks else ""
        return click.style(f"grading...{count}{f', {state.note}' if state.note else ''}", fg="cyan")
    if state.error:
        return click.style("no verdict", fg="red")
    if report := state.report:
        verdict = click.style(str(report.verdict), fg=_BY_VERDICT.get(report.verdict, "red"), bold=True)
        cause = f". Likely cause: {report.misconception.name}" if report.misconception else ""
        said = f"{verdict}, {report.score} of {report.problem.points} points"
        room = width - len(click.unstyle(said))
        return f"{said}{cause if len(cause) <= room else f'{cause[: room - 1]}…'}"
    return "waiting"


MEND = "Press f to read how to mend it, which counts as a hint."
SEE = "Press v to see what your code does now."


def with_keys(report: Report, width: int, keys: Collection[str], *, advises: bool = True, fix: bool = False) -> str:
    """Returns a report that names the keys that a session offers: to read how to mend a misconception, unless `fix`
    tells it, and to see the file at work."""
    see = SEE if "v" in keys else ""
    asking = MEND if "f" in keys else False
    return report_terminal.render(report, width, advises=advises, see=see, fix=fix or asking)


def verdict(state: State, width: int, keys: Collection[str]) -> list[str]:
    """Returns the last verdict; above it, while the next one is computed, its checks up to now. `keys` are those that
    the session offers."""
    width = report_width(width)
    if state.error:
        return wrap(state.error, width)
    former = with_keys(state.report, width, keys, advises=False, fix=state.fix).splitlines()[2:] if state.report else []
    if not state.grading:
        return former
    lines = [line for result in state.checks for line in report_terminal.render_check(result, width).splitlines()]
    lines += [f"  {'':7} {item.points:3}  {item.name}" for item in state.problem.checks[len(state.checks) :]]
    return [*lines, *(["", *wrap("Before this save:", width), *former] if former else [])]


def first_exhibit(state: State, played: Shown | None, width: int) -> list[str]:
    """Returns what to show below a verdict that can be played: the first exhibit, and the key for all."""
    report = state.report
    if state.grading or report is None or report.verdict is not Verdict.PASS or not report.can_play:
        return []
    first = exhibits(played.exhibits[:1], width) if played else []
    return [*first, "", "Press v to see all of it at work." if first else "Press v to see it at work."]


def play(played: Shown, width: int) -> list[str]:
    """Returns what a play has shown, and whether more is to come."""
    end = played.said if played.is_over else played.note or "playing..."
    return [*exhibits(played.exhibits, width), *(["", *wrap(end, report_width(width))] if end else [])]


def exhibits(shown: Sequence[Exhibit], width: int) -> list[str]:
    """Returns exhibits as lines, each after an empty one."""
    return [line for each in shown for line in ("", *exhibits_terminal.render(each, report_width(width)).splitlines())]


def hints(shown: Sequence[str], count: int) -> list[str]:
    """Returns the hints that the learner has seen."""
    text = "\n\n".join(f"**Hint {number} of {count}.** {hint}" for number, hint in enumerate(shown, 1))
    left = count - len(shown)
    more = f"Press h for the next hint; {left} left." if left else "There are no more hints. Press s for the solution."
    return [*terminal.markdown(page.as_text(text)).splitlines(), "", more]


def problems(space: Workspace, words: str, width: int) -> list[tuple[Problem, str]]:
    """Returns the problems whose number, title, part or state contain all of the words, each as a line."""
    found, standings = [], space.standings()
    for problem in catalog.problems():
        state, points, _ = standings[problem.name]
        text = " ".join([problem.label, problem.title, problem.name, catalog.part_of(problem), state]).lower()
        if all(word in text for word in words.lower().split()):
            room = width - 22 - len(state)
            title = problem.title if len(problem.title) <= room else f"{problem.title[: room - 1]}…"
            found.append(
                (problem, f"{problem.label}  {title:{max(room, 1)}}  {points:2} of {problem.points:2}  {state}")
            )
    return found


def footer(keys: Mapping[str, str], width: int) -> str:
    """Returns the keys that have a word, in one line."""
    shown = {key: word for key, word in keys.items() if word}
    gap = "  " if len("  ".join(f"{key} {word}" for key, word in shown.items())) <= width else " "
    return gap.join(f"{bold(key)} {word}" for key, word in shown.items())


def bold(text: str) -> str:
    return click.style(text, bold=True)


def report_width(width: int) -> int:
    """Returns the columns that a report takes on a screen of that width."""
    return min(max(width, NARROWEST), WIDEST)
