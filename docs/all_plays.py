"""Makes one page of all plays with the references, to be looked at.

    python docs/all_plays.py PAGE.html [NN ...]

Plays the problems that are named, or all. Says for each how long it took and what ended it early. Exits with 1 if a
play shows nothing or ends early.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grader.course import catalog, plays
from grader.exhibits import Progress
from grader.isolation import scratch
from grader.isolation.sandbox import ForkServer
from grader.judge import submission
from grader.play.play_session import Performance
from grader.problem import Problem
from grader.report import exhibits_page, html_report


def played(problem: Problem, fork_server: ForkServer) -> tuple[str, bool]:
    """The play of a problem's reference as HTML, and whether it went as it should."""
    start = time.perf_counter()
    performance = Performance(problem, submission.reference(problem), fork_server)
    exhibits = [item for item in performance if not isinstance(item, Progress)]
    end = performance.ending()
    print(f"{problem.label}  {len(exhibits)} exhibits  {time.perf_counter() - start:5.1f} s  {end.said}", flush=True)
    title = f"{problem.label} {problem.title}"
    return exhibits_page.article(title, exhibits, end), bool(exhibits) and not end.said


def main() -> None:
    page, *words = sys.argv[1:] or ["plays.html"]
    problems = [catalog.find(word) for word in words] or [each for each in catalog.problems() if plays.exists(each)]
    fork_server = ForkServer()
    try:
        shown = [played(problem, fork_server) for problem in problems]
    finally:
        fork_server.close()
        scratch.leave()
    body = "".join(article for article, _ in shown)
    Path(page).write_text(html_report.page("All plays", "What the references do", body), encoding="utf-8")
    sys.exit(0 if all(fine for _, fine in shown) else 1)


if __name__ == "__main__":
    main()
