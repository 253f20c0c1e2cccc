"""The loss of a language model on held-out rows, from logits that a submission's program computes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grader.worker.witness import RefusedProgramError

SAME = 1e-3  # nats: log-probabilities that do not depend on later tokens differ by less
LEAST = -30.0  # nats: what is less probable is equal, because its logits may be huge and rounded


def nats(
    logits: Callable[[dict[str, Any], bool], Any], given: Mapping[str, Any], targets: Any, counted: Any, rng: Any
) -> float:
    """Returns the sum of the losses of a batch in nats, of the targets (N, T) that are counted, bool (N, T).

    `given` are arrays (N, T) by name, such as the tokens, and `logits(given, counts)` returns those of the next token,
    (N, T, V). It is called twice: with the rows as they are, and with rows that have the tokens of another row from a
    random place on. The second call has `counts=False`. The distributions before that place must be equal. A program
    that knows of the next token cannot return the same: the first token after the place is another one, and what
    replaces it are held-out rows, too.

    Raises RefusedProgramError if logits are not finite, or if they depend on later tokens.
    """
    found = _log_probabilities(logits(dict(given), True))
    rows, T = targets.shape
    later = np.arange(T) >= rng.integers(1, T + 1, size=rows)[:, None]
    others = np.roll(np.arange(rows), int(rng.integers(1, rows)))
    moved = {name: np.where(later, x[others], x) for name, x in given.items()}
    again = _log_probabilities(logits(moved, False))
    if np.any(np.abs(np.maximum(found, LEAST) - np.maximum(again, LEAST))[~later] > SAME):
        raise RefusedProgramError("its logits depend on later tokens, or on other rows")
    return -float(np.take_along_axis(found, targets[..., None], -1)[..., 0][counted].sum())


def _log_probabilities(logits: Any) -> Any:
    """Returns the log-probabilities of logits (..., V) in float64. Raises RefusedProgramError if one is not finite."""
    found = np.asarray(logits, np.float64)
    if not np.isfinite(found).all():
        raise RefusedProgramError("its logits are not finite")
    found -= found.max(-1, keepdims=True)
    found -= np.log(np.sum(np.exp(found), -1, keepdims=True))
    return found
