"""Runs misconceptions ahead of the wrong attempt that will need them, while there is nothing else to do.

Otherwise, the first wrong attempt at a problem waits some seconds for its likely cause. The cache keeps the numbers for
later.
"""

import threading
from concurrent.futures import CancelledError

from grader.judge.judge import CasesByGroup
from grader.judge.reference import Answers
from grader.problem import Case, Check, Problem

QUIET = 2.0  # seconds after a grading: files that are saved in quick succession have the processor to themselves


class Precomputer:
    """A thread that asks for one reference output after another."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._asking = threading.Lock()

    def start(self, problem: Problem, reference: Answers, cases: CasesByGroup) -> None:
        """Starts with a problem, and stops with the former one. Nothing is done for long runs: each answer takes
        minutes."""
        self.stop()
        if problem.long_runs:
            return
        self._stopped = threading.Event()
        arguments = (reference, _first_cases(problem, cases), self._stopped)
        threading.Thread(target=self._run, args=arguments, name="precompute", daemon=True).start()

    def stop(self) -> None:
        """Asks for nothing more. An output that is being computed is finished."""
        with self._asking:
            self._stopped.set()

    def _run(self, reference: Answers, asked: list[tuple[Check, Case]], stopped: threading.Event) -> None:
        stopped.wait(QUIET)
        for check, case in asked:
            for variant in reference.misconceptions:
                try:
                    with self._asking:
                        if stopped.is_set():
                            return
                        answer = reference.ask(check, case, variant)
                    answer.exception()  # waits
                except (RuntimeError, CancelledError):
                    return  # the reference was closed


def _first_cases(problem: Problem, cases: CasesByGroup) -> list[tuple[Check, Case]]:
    """Returns the first case of each check, once for checks that share a run. Most wrong attempts fail there."""
    checks: dict[str, Check] = {}
    for check in problem.checks:
        checks.setdefault(check.run_key, check)
    return [(check, cases[check.cases][0]) for check in checks.values()]
