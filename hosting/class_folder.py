"""The folder of a class on a hub: what was handed in, the results, and what the teacher wrote about both."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from commandline.errors import UsageError
from grader.batch import deadlines
from grader.batch.deadlines import Deadlines
from grader.batch.records import Person, folded
from grader.batch.results import Results


@dataclass(frozen=True)
class Dates:
    """The deadlines of one learner, and the words that mean the learner in them."""

    rules: Deadlines
    names: tuple[str, ...]


@dataclass(frozen=True)
class ClassFolder:
    """The paths in the folder of a class. A teacher writes `deadlines.yml`, `roster.csv` and `lti/platforms.toml`, or
    none of them. The page for teachers writes `extensions.yml`, which is read with the deadlines, and `regrades`."""

    folder: Path

    @property
    def hand_ins(self) -> Path:
        return self.folder / "hand-ins"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def deadlines(self) -> Path:
        return self.folder / "deadlines.yml"

    @property
    def extensions(self) -> Path:
        return self.folder / deadlines.EXTENSIONS

    @property
    def regrades(self) -> Path:
        return self.folder / "regrades"

    @property
    def lti(self) -> Path:
        return self.folder / "lti"

    @property
    def roster(self) -> Path:
        return self.folder / "roster.csv"

    @property
    def log(self) -> Path:
        return self.folder / "grading.log"

    def rules(self) -> Deadlines:
        """Returns the teacher's deadlines; none if there is no file. Raises UsageError if they are not valid."""
        return deadlines.read(self.deadlines) if self.deadlines.is_file() else Deadlines()

    @contextlib.contextmanager
    def stored(self) -> Iterator[Results | None]:
        """Yields the results to read; None if there are none that can be read: the first batch may be making them. If
        it is a lasting error, a batch says what it is."""
        try:
            stored = Results(self.results)
        except UsageError:
            yield None
            return
        with contextlib.closing(stored):
            yield stored

    def person(self, learner: str) -> Person:
        """Returns the learner of the results whom a user of the hub is: a roster may give another name, and a
        section."""
        with contextlib.suppress(sqlite3.Error), self.stored() as stored:
            return person_among(stored.people().values() if stored else (), learner)
        return Person(learner, (learner,))

    def dates(self, learner: str) -> Dates:
        """Returns the deadlines of a learner. Raises UsageError if the file with them is not valid."""
        person = self.person(learner)
        names = tuple(dict.fromkeys((learner, person.learner, *person.ids)))
        return Dates(self.rules().for_section(person.section), names)


def person_among(people: Iterable[Person], learner: str) -> Person:
    """Returns the one of these people whom a user of the hub is; somebody of that name if nobody is."""
    # By the id alone: a name can be somebody else's.
    found = [one for one in people if folded(learner) in map(folded, one.ids)]
    return found[0] if len(found) == 1 else Person(learner, (learner,))
