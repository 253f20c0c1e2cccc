"""The summary of a class: pass rates, scores, the most common misconceptions, near-duplicate submissions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from commandline import files
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch import reader, similarity
from grader.batch.records import Change, Known, Likeness, Record, Regrade, by_learner, collated
from grader.batch.results import Results
from grader.batch.similarity import Pair
from grader.batch.tables import write_csv
from grader.course import catalog
from grader.problem import Problem

ABOUT = ("class", "graded", "dates")  # facts of a results folder
MOST_SHOWN = 20  # learners in a line
MOST_UNUSED = 5  # files of one learner that are listed one by one


@dataclass(frozen=True)
class ProblemSummary:
    """One problem in a class, without the learners who are excused from it.

    Attributes:
        problem: The problem.
        learners: The number of learners.
        attempted: The number of learners who attempted it.
        passed: The number of learners who passed.
        mean_score: The mean score, in points.
        misconceptions: The names of misconceptions with the learners who have them, the most common first.
        checks: The names of checks with the number of attempts that passed each, in order.
    """

    problem: Problem
    learners: int
    attempted: int
    passed: int
    mean_score: float
    misconceptions: Sequence[tuple[str, Sequence[str]]]
    checks: Sequence[tuple[str, int]]

    @property
    def pass_rate(self) -> float:
        return self.passed / self.learners if self.learners else 0.0


@dataclass(frozen=True)
class Summary:
    """The results of a class.

    Attributes:
        problems: The results by problem.
        records: The records of each learner.
        points: The most points that anyone can have.
        verdicts: The number of records with each verdict.
        duplicates: The pairs of learners with near-duplicate files.
        likenesses: The files that are like a known solution.
        unused: The files that were not used: (learner, file, reason).
        regrades: The gradings that were repeated.
        changes: The marks that changed without a new submission.
        about: Lines on the name of the class, the time of grading and the deadlines, as far as they are known.
        sections: The section of each learner who is in one.
    """

    problems: Sequence[ProblemSummary]
    records: dict[str, list[Record]]
    points: int
    verdicts: Counter[str]
    duplicates: Sequence[Pair]
    likenesses: Sequence[Likeness] = ()
    unused: Sequence[tuple[str, str, str]] = ()
    regrades: Sequence[Regrade] = ()
    changes: Sequence[Change] = ()
    about: Sequence[str] = ()
    sections: Mapping[str, str] = field(default_factory=dict)


def of(stored: Results) -> Summary:
    """Returns the summary of a results folder."""
    summary = summarize(stored.records(), stored.unused(), stored.regrades(), stored.known())
    sections = {name: person.section for name, person in stored.people().items() if person.section}
    return replace(summary, about=about(stored), sections=sections, changes=stored.changes())


def about(stored: Results) -> list[str]:
    """Returns the name of a class, when it was graded and what the deadlines were."""
    return [fact for name in ABOUT if (fact := stored.fact(name))]


def by_learner_unused(unused: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yields the files that were not used, as a reader needs them: of many of one learner, such as a whole bundle, the
    first."""
    grouped: dict[str, list[tuple[str, str, str]]] = {}
    for row in unused:
        grouped.setdefault(row[0], []).append(row)
    for learner in sorted(grouped, key=collated):
        rows = grouped[learner]
        if len(rows) <= MOST_UNUSED:
            yield from rows
        else:
            _, file, reason = rows[0]
            yield learner, file, f"{reason.rstrip('.')}; {len(rows) - 1:,} more files were not used"


def summarize(
    records: Sequence[Record],
    unused: Sequence[tuple[str, str, str]] = (),
    regrades: Sequence[Regrade] = (),
    known: Sequence[Known] = (),
) -> Summary:
    """Returns the summary of these records. Raises CommandError if the course lacks one of their problems."""
    by_problem: dict[str, list[Record]] = {}
    for record in records:
        by_problem.setdefault(record.problem, []).append(record)
    rows = [_problem(catalog.load(name), group) for name, group in sorted(by_problem.items())]
    texts: dict[str, dict[str, str]] = {}
    for record in (record for record in records if record.source):
        texts.setdefault(record.learner, {})[similarity.digest(record.source)] = record.source
    tokens = reader.tokens(texts)
    likenesses, duplicates = list[Likeness](), list[Pair]()
    for row in rows:
        solutions = similarity.known(row.problem, known)
        likes, pairs = similarity.compare(row.problem, by_problem[row.problem.name], tokens, solutions)
        likenesses += likes
        duplicates += pairs
    points = sum(row.problem.points for row in rows)
    verdicts = Counter(record.verdict for record in records)
    by_name = dict(sorted(by_learner(records).items(), key=lambda item: collated(item[0])))
    return Summary(rows, by_name, points, verdicts, duplicates, likenesses, unused, regrades)


def likeness_lines(summary: Summary) -> Iterator[str]:
    """Yields lines for the terminal on how many learners handed in a known solution, and who."""
    exact = [one for one in summary.likenesses if one.is_word_for_word]
    for name in dict.fromkeys(one.known for one in exact):
        yield _likeness_line([one for one in exact if one.known == name], f"handed in {name} word for word")
    if others := [one for one in summary.likenesses if not one.is_word_for_word]:
        yield _likeness_line(others, "handed in a file that resembles a known solution")


def _likeness_line(likenesses: Iterable[Likeness], said: str) -> str:
    labels: dict[str, list[str]] = {}
    for one in likenesses:
        labels.setdefault(one.learner, []).append(ProblemName(one.problem).label)
    named = [f"{learner} ({', '.join(sorted(labels[learner]))})" for learner in sorted(labels, key=collated)]
    shown = ", ".join(named[:MOST_SHOWN]) + ", ..." * (len(named) > MOST_SHOWN)
    return f"{counted(len(named), 'learner')} {said}: {shown}."


def _problem(problem: Problem, records: Sequence[Record]) -> ProblemSummary:
    records = [record for record in records if not record.excused]
    misconceptions: dict[str, list[str]] = {}
    passes: Counter[str] = Counter()
    for record in records:
        if record.misconception:
            misconceptions.setdefault(record.misconception, []).append(record.learner)
        if record.report:
            passes.update(check.name for check in record.report.checks if check.passed)
    return ProblemSummary(
        problem,
        len(records),
        sum(record.verdict != "NOT ATTEMPTED" for record in records),
        sum(record.verdict == "PASS" for record in records),
        sum(record.score for record in records) / (len(records) or 1),
        sorted(misconceptions.items(), key=lambda item: (-len(item[1]), item[0])),
        [(check.name, passes[check.name]) for check in problem.checks],
    )


def write_all(summary: Summary, page: str, folder: Path) -> list[Path]:
    """Writes summary.csv, misconceptions.csv, similar.csv and the page as summary.html; returns their paths."""
    paths = [folder / name for name in ("summary.csv", "misconceptions.csv", "similar.csv", "summary.html")]
    write_csv(
        paths[0],
        ("problem", "learners", "attempted", "passed", "pass_rate", "mean_score", "points"),
        [
            (row.problem.name, row.learners, row.attempted, row.passed, f"{row.pass_rate:.3f}", f"{row.mean_score:.2f}",
             row.problem.points) for row in summary.problems
        ],
    )  # fmt: skip
    misconceptions = [
        (row.problem.name, name, len(learners)) for row in summary.problems for name, learners in row.misconceptions
    ]
    write_csv(paths[1], ("problem", "misconception", "learners"), misconceptions)
    similar = [(one.problem, one.learner, "", f"{one.similarity:.3f}", one.known) for one in summary.likenesses]
    similar += [(pair.problem, pair.one, pair.other, f"{pair.similarity:.3f}", "") for pair in summary.duplicates]
    write_csv(paths[2], ("problem", "one", "other", "similarity", "known"), similar)
    files.write(paths[3], page)
    return paths
