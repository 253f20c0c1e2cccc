"""The cheapest decoder: write tokens with the distribution of a given model, with little work and few bytes read."""

from grader.problem import Entry
from grader.task import Standard, Task

TASK = Task(
    title="The cheapest decoder",
    entries=(Entry("decode", ("weights", "prompt", "key", "greedy")),),
    unit="operations",
    standards=(
        Standard("reference beaten", 16.5e9),
        Standard("bronze", 14.5e9),
        Standard("silver", 11e9),
        Standard("gold", 9e9),
    ),
    text_bytes=8_000,
    timeout=120.0,
    long_runs=True,
)
