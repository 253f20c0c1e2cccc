"""The identity of learners: a learner is known by the id of an export or a roster, never by the name."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from commandline.errors import UsageError
from commandline.spelling import nearest
from commandline.text import counted
from grader.batch.intake import Intake
from grader.batch.records import Person, folded
from grader.batch.results import Results
from grader.batch.store import Store

MOST_NAMED = 5  # learners in an error


def recognize(intake: Intake, store: Store) -> Iterator[str]:
    """Finds the learners of an export among the stored ones, also those with a new name. Yields a sentence on each
    change."""
    stored = store.people()
    by_id = {folded(person.ids[0]): name for name, person in stored.items() if person.ids}
    by_id |= {folded(number): join.joined for join in store.joins() for number in (*join.ids, join.learner)}
    joined = {folded(number) for join in store.joins() for number in (*join.ids, join.learner)}
    for learner in intake.learners:
        person = intake.people[learner]
        own = folded(person.ids[0] if person.ids else learner)
        known = by_id.get(own, learner)
        if own in joined:
            intake.rename(learner, known)
        elif known != learner and learner not in stored:
            store.rename(known, learner)
            yield f"{known!r} is called {learner!r} now"
        if known in stored:
            name = known if own in joined else learner
            intake.people[name] = intake.people[name].knowing(stored[known])


def join(folder: Path, learner: str, to: str, because: str) -> str:
    """Joins two learners of a results folder. Returns a sentence on the result. Raises UsageError if one of them is not
    known."""
    if not because.strip():
        raise UsageError("--join needs --because with the reason.")
    store = Store.existing(folder)
    try:
        one, other = (named(store, word) for word in (learner, to))
        if one == other:
            raise UsageError(f"{learner!r} and {to!r} are the same learner already.")
        store.join(one.learner, other.learner, one.ids or (one.learner,), because)
        store.write_tables()
    finally:
        store.close()
    return (
        f"{one.learner!r} and {other.learner!r} are one learner now, {other.learner!r}, with the attempts of both. "
        "The next `grade batch` brings gradebooks and pages up to date."
    )


def add(folder: Path, other: Path) -> str:
    """Adds the learners of another results folder to one. Returns a sentence on the result.

    Raises UsageError if both folders have a learner, or if one of them cannot be used.
    """
    if folder.resolve() == other.resolve():
        raise UsageError(f"--add: {other} is the same folder.")
    theirs = Results(other)
    store = None
    try:
        store = Store.existing(folder)
        own, others = Directory(store.people().values()), theirs.people()
        both = [name for name, person in others.items() if any(word in own for word in (name, *person.ids))]
        if both:
            raise UsageError(
                f"--add: both folders have {', '.join(map(repr, sorted(both)[:MOST_NAMED]))}. Delete the learner in "
                "one of them with --forget, or grade all in one folder."
            )
        same_seed = store.fact("seed") == theirs.fact("seed")
        store.add(theirs)
        store.write_tables()
    finally:
        theirs.close()
        if store:
            store.close()
    then = (
        ""
        if same_seed
        else f" They were graded with another seed, so `grade batch` will grade them again with that of {folder}."
    )
    return (
        f"{counted(len(others), 'learner')} of {other} {'is' if len(others) == 1 else 'are'} in {folder} now, with all "
        f"attempts and marks. The next `grade batch` brings gradebooks and pages up to date.{then}"
    )


class Directory:
    """Finds the learners of a class by the words that a teacher may use for them.

    An id comes first, then the learner as tables show it. A name counts only if it is nobody's id and exactly one
    learner's: learners choose their names.
    """

    def __init__(self, people: Iterable[Person]) -> None:
        listed = list(people)
        self._meant: dict[str, list[Person]] = {}
        for words_of in (lambda person: person.ids, lambda person: (person.learner,), lambda person: (person.name,)):
            found: dict[str, list[Person]] = {}
            for person in listed:
                for word in {folded(text) for text in words_of(person)} - self._meant.keys():
                    found.setdefault(word, []).append(person)
            self._meant |= found
        self._words = [word for person in listed for word in (person.learner, *person.ids, person.name)]

    def __contains__(self, word: str) -> bool:
        return folded(word) in self._meant

    def meant(self, word: str) -> list[Person]:
        """Returns the learners whom a word may mean."""
        return self._meant.get(folded(word), [])

    def find(self, word: str) -> Person | None:
        """Returns the learner whom a word means; None if there is none. Raises UsageError if there are several."""
        people = self.meant(word)
        if len(people) > 1:
            named = ", ".join(sorted(repr(person.learner) for person in people))
            raise UsageError(f"{word!r} is the name of more than one learner: {named}. Name one by the id.")
        return people[0] if people else None

    def words(self, person: Person) -> tuple[str, ...]:
        """Returns the words that mean this learner and nobody else."""
        own = (person.learner, *person.ids, person.name)
        return tuple(word for word in own if self._meant[folded(word)] == [person])

    def near(self, word: str, most: int) -> list[str]:
        """Returns the words that are spelled most like another one."""
        return nearest(word, self._words, most)


def named(store: Results, word: str) -> Person:
    """Returns the learner of a results folder whom a word means. Raises UsageError."""
    person = Directory(store.people().values()).find(word)
    if person is None:
        raise UsageError(f"{store.folder} has no learner {word!r}; name one as in results.csv.")
    return person
