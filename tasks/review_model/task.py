"""A change to the model: reviewed hunk by hunk, with a test for each fault."""

from grader.task import Review, Standard

TASK = Review(
    title="Review: a change to the model",
    numbers=(2, 3, 4, 5, 6),
    unit="points",
    standards=(Standard("bronze", 10), Standard("silver", 6), Standard("gold", 3)),
)
