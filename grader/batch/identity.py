"""Who is who: a learner is known by the id of an export or a roster, never by the name."""

from collections.abc import Iterator
from pathlib import Path

from commandline.errors import UsageError
from grader.batch.intake import Intake
from grader.batch.records import Person, folded
from grader.batch.store import Results, Store


def recognize(intake: Intake, store: Store) -> Iterator[str]:
    """Finds the learners of an export among the stored ones, also those with a new name, and yields what has changed."""
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
    """Makes two learners of a results folder one, and returns what was done. Raises UsageError if one of them is not known."""
    if not because.strip():
        raise UsageError("--join needs --because with the reason.")
    Results(folder).close()  # raises if there are no results
    store = Store(folder)
    try:
        one, other = (_named(store, word) for word in (learner, to))
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


def _named(store: Store, word: str) -> Person:
    fitting = [
        person
        for person in store.people().values()
        if folded(word) in {folded(text) for text in (person.learner, person.name, *person.ids)}
    ]
    exact = [person for person in fitting if person.learner == word]
    if len(fitting) != 1 and len(exact) != 1:
        what = "more than one learner" if fitting else "no learner"
        raise UsageError(f"{store.folder} has {what} {word!r}; name one as in results.csv.")
    return (exact or fitting)[0]
