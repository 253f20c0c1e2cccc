"""The tightest step: one training step on eight devices, with few bytes sent between them."""

from grader.problem import Entry
from grader.task import Standard, Task

TASK = Task(
    title="The tightest step",
    entries=(Entry("step", ("parameters", "tokens", "mesh"), returns=("loss", "parameters")),),
    unit="bytes",
    standards=(
        Standard("reference beaten", 22_000_000),
        Standard("bronze", 13_000_000),
        Standard("silver", 7_500_000),
        Standard("gold", 5_300_000),
    ),
    devices=8,
    timeout=120.0,
    long_runs=True,
)
