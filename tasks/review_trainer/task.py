"""A change to the trainer: reviewed hunk by hunk, with a test for each fault."""

from grader.task import Review, Standard

TASK = Review(
    title="Review: a change to the trainer",
    numbers=(7, 8, 9, 10, 11, 12, 13),
    unit="points",
    standards=(Standard("bronze", 10), Standard("silver", 6), Standard("gold", 3)),
)
