"""Problems that the course has moved: their results are found by the slug, and get the new number."""

from collections.abc import Iterator, Mapping

from commandline.problem_name import ProblemName
from grader.batch import recognize
from grader.batch.gradebook import Assignment
from grader.batch.store import Store
from grader.course import catalog


def follow(store: Store) -> Iterator[str]:
    """Gives stored results the present names of their problems, and says so."""
    found = {name: recognize.present_name(name) for name in store.problems()}
    moved: Mapping[str, str] = {name: present for name, present in found.items() if present and present != name}
    for name, present in moved.items():
        store.move(name, present)
        problem = catalog.load(present)
        yield (
            f"problem {ProblemName(name).label} is problem {problem.label} now and keeps its results. In gradebooks it "
            f"is called {Assignment.of(problem).title!r}: rename its assignment in the course system before you import "
            "one"
        )
