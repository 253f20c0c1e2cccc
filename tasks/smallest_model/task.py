"""The smallest model: store a trained model in few bytes, so that its loss stays nearly the same."""

from grader.problem import Entry
from grader.task import Standard, Task

TASK = Task(
    title="The smallest model",
    entries=(
        Entry("compress", ("weights", "stories")),
        Entry("restore", ("file",)),
        Entry("logits", ("parameters", "tokens")),
    ),
    unit="bytes",
    standards=(
        Standard("reference beaten", 560_000),
        Standard("bronze", 300_000),
        Standard("silver", 235_000),
        Standard("gold", 160_000),
    ),
    saves=True,
    text_bytes=6_000,
    timeout=240.0,
    long_runs=True,
)
