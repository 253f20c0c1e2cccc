"""The evidence of the smallest model: a witness computes the loss of what was restored from a file, and that of the
trained model, on the same held-out stories."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import BadOutputError, Offer, RefusedProgramError, Subject, Weighed, Witness, described, nats
from harness.data.pocket import stories
from problems.stage.model import gpt
from problems.stage.weights import END, POCKET, encode
from tasks.smallest_model.offer import ROWS, T, V

BAR = 0.03  # nats per token that the loss may be above that of the trained model, which is about 0.40
STORIES, HELD_OUT = 3000, 96
PUBLIC_SEED = 0  # of the stories that a submission may tune its codes with


def save(subject: Subject) -> bytes:
    """The bytes that a submission makes of the trained weights. Raises BadOutputError."""
    weights = {name: array.copy() for name, array in POCKET.arrays.items()}
    file: Any = subject.call("compress", weights, _ids(STORIES, PUBLIC_SEED))
    if type(file) is not bytes:
        raise BadOutputError(f"`compress` returned {described(file)}; it must return bytes")
    return file


def weigh(offered: Offer, seed: int, witness: Witness) -> Iterator[Weighed]:
    """Compares the losses on held-out stories of the seed. Raises RefusedProgramError."""
    compiled = witness.sound(offered.programs["logits"])
    if dict(zip(compiled.program.outputs, compiled.output_shapes, strict=True)) != {"logits": (ROWS, T, V)}:
        raise RefusedProgramError("its logits have another shape")
    parameters = {leaf.path: leaf.values for leaf in compiled.program.sent}
    rng = np.random.default_rng(seed)
    ids, counted = _rows(_ids(HELD_OUT, int(rng.integers(1, 2**62))))
    found = trained = 0.0
    for start in range(0, HELD_OUT, ROWS):
        tokens, targets, here = (x[start : start + ROWS] for x in (ids[:, :-1], ids[:, 1:], counted))
        found += nats(lambda given, _: _run(compiled, parameters | given), {"tokens": tokens}, targets, here, rng)
        trained += float(_trained_loss()(tokens, targets, here))
    loss, more = found / counted.sum(), (found - trained) / counted.sum()
    missed = f"its loss is {more:.3f} nats per token above the trained model's, and the task allows {BAR:.2f}"
    figures = {"nats per token": round(float(loss), 4), "above the trained model": round(float(more), 4)}
    yield Weighed(len(offered.file), missed if more > BAR else "", figures)


def _run(compiled: Any, arrays: dict[str, Any]) -> Any:
    """The logits of a compiled program. Raises RefusedProgramError if it takes an array that was not sent."""
    arguments = []
    for item in compiled.program.inputs:
        array = arrays.get(item.name)
        if array is None or (item.source == "sent") == (item.name == "tokens") or array.shape != item.shape:
            raise RefusedProgramError(f"its program takes an array that does not exist, {item.name!r:.60}")
        arguments.append(np.asarray(array).astype(jnp.dtype(item.dtype)))
    return compiled(arguments)[0]


def _ids(count: int, seed: int) -> list[np.ndarray]:
    """The ids of stories, each with end-of-text."""
    return [np.append(encode(text), END).astype(np.int32)[: T + 1] for text in stories(count, seed=seed)]


def _rows(found: list[np.ndarray]) -> tuple[Any, Any]:
    """Rows of T + 1 ids, one for each story, and which of their T targets count."""
    ids = np.stack([np.pad(row, (0, T + 1 - len(row))) for row in found])
    lengths = np.array([len(row) for row in found])
    return ids, np.arange(1, T + 1) < lengths[:, None]


@cache
def _trained_loss() -> Any:
    """A function that returns the summed loss of the trained model on rows, in nats."""
    graph, state = nnx.split(gpt())

    @jax.jit
    def total(tokens: Any, targets: Any, counted: Any) -> Any:
        chosen = jax.nn.log_softmax(nnx.merge(graph, state)(tokens))
        return -jnp.sum(jnp.take_along_axis(chosen, targets[..., None], -1)[..., 0] * counted)

    return total
