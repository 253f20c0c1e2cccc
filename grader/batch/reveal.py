"""The level of detail that learners get of their results: as much as the teacher wants, and more after the due date."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from grader.batch.deadlines import Deadlines
from grader.batch.identity import Directory
from grader.batch.records import Person, Record
from grader.report.redacted import Reveal

FACTS = ("reveal", "reveal_after_due")  # the names of the stored facts
ADVICE: Reveal = "advice"  # everything, unless the teacher chooses less
Slot = tuple[str, str]  # learner, problem


def by_section(rules: Deadlines | None, people: Sequence[Person]) -> dict[str, Deadlines]:
    """Returns the deadlines of each learner, who may be in a section of the roster that has its own."""
    if rules is None:
        return {}
    of_section = {section: rules.for_section(section) for section in {person.section for person in people}}
    return {person.learner: of_section[person.section] for person in people}


def past_due(records: Sequence[Record], people: Sequence[Person], rules: Deadlines | None) -> dict[Slot, bool]:
    """Returns whether the due date of each learner for each problem is over, where there is one."""
    own, now, directory = by_section(rules, people), datetime.now(UTC), Directory(people)
    words = {person.learner: directory.words(person) for person in people}
    slots = [(record.learner, record.problem) for record in records if record.learner in own]
    dates = {slot: own[slot[0]].due_for(words[slot[0]], slot[1]) for slot in slots}
    return {slot: now > date for slot, date in dates.items() if date}


def levels(
    records: Sequence[Record], over: Mapping[Slot, bool], reveal: Reveal | None, after_due: Reveal | None
) -> dict[Slot, Reveal]:
    """Returns the level of detail for each learner and problem. `over` is what `past_due` returns."""
    before = reveal or ADVICE
    slots = ((record.learner, record.problem) for record in records)
    return {slot: (after_due or before) if over.get(slot) else before for slot in slots}
