"""Counts what the learner's files cost, one at a time, and keeps the figures in the log."""

import threading

from commandline.errors import UsageError
from grader.cost import page, records
from grader.cost.statement import Statement
from grader.course.workspace import Workspace
from grader.judge import submission
from grader.problem import Problem
from grader.resident.resident import Resident


class Costs:
    """Counts files with the workers of the studio."""

    def __init__(self, space: Workspace, resident: Resident) -> None:
        self._space, self._resident = space, resident
        self._counting = threading.Lock()

    def count(self, problem: Problem) -> str:
        """Returns what the problem's file costs, as HTML. Raises UsageError if it cannot be read."""
        digest = self._space.digest(problem)
        try:
            source = submission.read(problem, self._space.file(problem))
        except submission.UnreadableSubmissionError as error:
            raise UsageError(str(error)) from None
        news = ""
        with self._counting:
            earlier = [each.figures for each in records.counted(self._space.entries(), problem)]
            statement = Statement.of(problem, source, self._resident, earlier)
            if statement.bill:
                news = records.note(self._space, problem, statement.bill, digest)
        return page.article(statement, news)
