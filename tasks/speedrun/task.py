"""The speedrun: reach a loss on the pocket stories with few scalar operations."""

from grader.problem import Entry
from grader.task import Standard, Task

TASK = Task(
    title="The speedrun",
    entries=(
        Entry("settings", ()),
        Entry("vocabulary", ("stories", "V")),
        Entry("init", ("key", "V")),
        Entry("step", ("state", "tokens", "segments", "number"), returns=("state", "loss")),
        Entry("logits", ("state", "tokens", "segments")),
    ),
    unit="scalar operations",
    standards=(
        Standard("reference beaten", 140e9),
        Standard("bronze", 100e9),
        Standard("silver", 60e9),
        Standard("gold", 33e9),
    ),
    learns=True,
    text_bytes=10_000,
    timeout=120.0,
    long_runs=True,
)
