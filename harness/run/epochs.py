"""How often a run reads its text, and whether that was too often."""

import math
from typing import Any

from harness.data.batches import Mixture
from harness.run.run_session import Session

BY_HEART = (
    10  # epochs from which on the sentence says what to do: a text of 60 kB is known by heart after about as many
)
VALIDATIONS = 3  # without a new best, before the best is long past


def epochs(session: Session, step: int) -> dict[str, float]:
    """How often each source has been read after so many steps, by name; empty where rows are not those of the data."""
    if session.config.reward:
        return {}
    rows, data = session.rows, session.prepared
    read = step * session.config.batch_size
    if not isinstance(rows, Mixture):
        return {data.name: read / len(rows)}
    each = zip(data.parts, rows.sources, rows.weights, strict=True)
    return {part.name: read * share / len(source) for part, source, share in each}


def most(session: Session, step: int) -> str:
    """Words on the source that is read most often, for a line of progress; empty where there is none."""
    found = epochs(session, step)
    return f"epoch {rounded(max(found.values()))}" if found else ""


def on_epochs(session: Session) -> str:
    """A sentence on how often a run will have read its data; empty where its rows are not those of the data."""
    config = session.config
    found = epochs(session, config.steps)
    if not found:
        return ""
    named = " and ".join(f"{rounded(number)} epochs of {name}" for name, number in found.items())
    sentence = f"{config.steps:,} steps of {config.batch_size:,} rows are {named}."
    if max(found.values()) < BY_HEART or config.patience:
        return sentence
    return (
        f"{sentence} A text that is read so often is learned by heart: --set patience={VALIDATIONS} stops soon after "
        "the best validation loss."
    )


def rounded(number: float) -> str:
    """Epochs with as many digits as count."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def long_past_best(session: Session, metrics: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The line of metrics of the best validation loss, if it lies in the first half of the steps so far and several
    validations back.

    None otherwise, and for reinforcement learning, whose validation loss only shows what it costs.
    """
    losses = [line for line in metrics if (loss := line["validation_loss"]) is not None and math.isfinite(loss)]
    if not losses or session.config.reward:
        return None
    best, last = min(losses, key=lambda line: line["validation_loss"]), losses[-1]["step"]
    past = last - best["step"] >= VALIDATIONS * session.config.eval_every and 2 * best["step"] <= last
    return best if past else None
