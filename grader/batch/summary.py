"""The summary of a class: pass rates, scores, the most common misconceptions, near-duplicate submissions."""

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from commandline import files
from commandline.text import counted
from grader.batch import similarity
from grader.batch.records import Record
from grader.batch.similarity import Pair
from grader.batch.tables import write_csv
from grader.course import catalog
from grader.problem import Problem

MOST_MISCONCEPTIONS = 5  # of each problem
_BANDS = 10  # in the table of scores


@dataclass(frozen=True)
class ProblemSummary:
    """One problem in a class. `misconceptions` are (name, number of learners), the most common first."""

    problem: Problem
    learners: int
    attempted: int
    passed: int
    mean_score: float
    misconceptions: Sequence[tuple[str, int]]

    @property
    def pass_rate(self) -> float:
        return self.passed / self.learners if self.learners else 0.0


@dataclass(frozen=True)
class Summary:
    """A class. `totals` are the points of each learner, out of `points`. `unused` are (learner, file, reason)."""

    problems: Sequence[ProblemSummary]
    totals: dict[str, int]
    points: int
    verdicts: Counter[str]
    duplicates: Sequence[Pair]
    unused: Sequence[tuple[str, str, str]] = ()


def summarize(records: Sequence[Record], unused: Sequence[tuple[str, str, str]] = ()) -> Summary:
    """The summary of these records."""
    by_problem: dict[str, list[Record]] = {}
    totals: Counter[str] = Counter()
    for record in records:
        by_problem.setdefault(record.problem, []).append(record)
        totals[record.learner] += record.score
    rows, duplicates = [], list[Pair]()
    for name, group in sorted(by_problem.items()):
        problem = catalog.load(name)
        misconceptions = Counter(record.misconception for record in group if record.misconception)
        attempted = [record for record in group if record.verdict != "NOT ATTEMPTED"]
        rows.append(
            ProblemSummary(
                problem, len(group), len(attempted), sum(record.verdict == "PASS" for record in group),
                sum(record.score for record in group) / len(group), misconceptions.most_common(MOST_MISCONCEPTIONS),
            )
        )  # fmt: skip
        duplicates += similarity.pairs(problem, group)
    points = sum(row.problem.points for row in rows)
    return Summary(
        rows, dict(sorted(totals.items())), points, Counter(record.verdict for record in records), duplicates, unused
    )


def write_all(summary: Summary, folder: Path) -> list[Path]:
    """Writes summary.csv, misconceptions.csv, similar.csv and summary.html; returns their paths."""
    paths = [folder / name for name in ("summary.csv", "misconceptions.csv", "similar.csv", "summary.html")]
    write_csv(
        paths[0],
        ("problem", "learners", "attempted", "passed", "pass_rate", "mean_score", "points"),
        [
            (row.problem.name, row.learners, row.attempted, row.passed, f"{row.pass_rate:.3f}", f"{row.mean_score:.2f}",
             row.problem.points) for row in summary.problems
        ],
    )  # fmt: skip
    misconceptions = [(row.problem.name, name, count) for row in summary.problems for name, count in row.misconceptions]
    write_csv(paths[1], ("problem", "misconception", "learners"), misconceptions)
    pairs = [(pair.problem, pair.one, pair.other, f"{pair.similarity:.3f}") for pair in summary.duplicates]
    write_csv(paths[2], ("problem", "one", "other", "similarity"), pairs)
    files.write(paths[3], page(summary))
    return paths


def page(summary: Summary) -> str:
    """The summary as one self-contained HTML page: no scripts, no images, no external styles."""
    parts = [
        f"<h1>{counted(len(summary.totals), 'learner')}, {counted(len(summary.problems), 'problem')}</h1>",
        f"<p>{', '.join(f'{count} {_text(verdict)}' for verdict, count in sorted(summary.verdicts.items()))}.</p>",
        "<h2>Problems</h2>",
        _table(("problem", "passed", "", "mean score"), [
            (_text(f"{row.problem.label} {row.problem.title}"), f"{row.passed} of {row.learners}", _bar(row.pass_rate),
             f"{row.mean_score:.1f} of {row.problem.points}") for row in summary.problems
        ]),
        "<h2>Scores</h2>",
        f"<p>Number of learners by total score, out of {summary.points} points.</p>",
        _table(("points", "learners", ""), _bands(summary)),
        "<h2>Most common misconceptions</h2>",
        _table(("problem", "misconception", "learners", ""), [
            (row.problem.label, _text(name), str(count), _bar(count / row.learners))
            for row in summary.problems for name, count in row.misconceptions
        ]) or "<p>None was recognized.</p>",
        "<h2>Near-duplicate submissions</h2>",
        f"<p>Pairs of files that share at least {similarity.THRESHOLD:.0%} of their sequences of {similarity.LENGTH} tokens. "
        "Names are ignored, and sequences from the stub or the reference are not counted. A pair is a reason to compare the "
        "files, not proof of copying.</p>",
        _table(("problem", "one", "other", "similarity"), [
            (_text(pair.problem), _text(pair.one), _text(pair.other), f"{pair.similarity:.0%}") for pair in summary.duplicates
        ]) or "<p>None.</p>",
        "<h2>Files that were not used</h2>",
        _table(("learner", "file", "reason"), [tuple(map(_text, row)) for row in summary.unused]) or "<p>None.</p>",
    ]  # fmt: skip
    return _PAGE.format(body="\n".join(parts))


def _bands(summary: Summary) -> list[tuple[str, ...]]:
    """The rows of the table of scores: a band of points, the number of learners in it, and a bar."""
    size = max(1, -(-(summary.points + 1) // _BANDS))
    counts = Counter(total // size for total in summary.totals.values())
    rows: list[tuple[str, ...]] = []
    for band in range(summary.points // size + 1):
        last = min(band * size + size - 1, summary.points)
        label = f"{band * size} to {last}" if last > band * size else str(last)
        rows.append((label, str(counts[band]), _bar(counts[band] / max(1, len(summary.totals)))))
    return rows


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; empty if there are no rows. The header is escaped; cells must be HTML."""
    if not rows:
        return ""
    head = "".join(f"<th>{_text(name)}</th>" for name in header)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _bar(share: float) -> str:
    return f'<div class="bar" role="img" aria-label="{share:.0%}"><div style="width:{share:.1%}"></div></div>'


def _text(text: str) -> str:
    return html.escape(text)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Class summary</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }}
.bar {{ width: 12rem; height: .9rem; margin-top: .3rem; background: #eee; }}
.bar div {{ height: 100%; background: #2a6f97; }}
</style></head><body>
{body}
</body></html>
"""
