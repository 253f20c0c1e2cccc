"""Problem 19, played: in which numbers the learner's model computes, why a sum needs float32, and how it learns."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Progress, Table
from problems.stage.programs import dtypes
from problems.stage.weights import POCKET, held_out

TRAINS = True
D, F, T, BATCH, STEPS, GAP = 64, 256, 64, 8, 60, 3
ADDED, SHOWN = 1024, 32
SUMS = ("sums", "exponentials", "logarithms", "roots")


def play(module: LearnerModule) -> Exhibits:
    """The types of the operations of a forward pass; a sum of ones in both types; and the loss while the model
    trains."""
    rows = np.stack([ids[:T] for ids in held_out(64)])
    model = module.construct("MixedLM", vocab_size=POCKET.vocab_size, d_model=D, d_ff=F)()
    graph, state = nnx.split(model)

    def loss(state: Any, ids_T: jax.Array) -> Any:
        return module.mixed_loss(nnx.merge(graph, state), ids_T, -1)

    found = dtypes(loss, state, rows[0])
    yield Table(
        "In which numbers your model computes",
        ("operations", "bfloat16", "float32"),
        tuple((name, *(str(of.get(kind, "")) for kind in ("bfloat16", "float32"))) for name, of in found.items()),
        "Products of matrices take nearly all the time, and in bfloat16 they read half the bytes. Everything else "
        "takes little, and needs the digits." + misplaced(found),
    )
    ones, sums = np.arange(1, ADDED + 1), {}
    for kind in (jnp.bfloat16, jnp.float32):
        _, sums[kind] = jax.lax.scan(lambda total, one: (total + one, total + one), kind(0), jnp.ones(ADDED, kind))
    yield Lines(
        "Add one, a thousand times",
        tuple(Line(jnp.dtype(kind).name, ones[SHOWN - 1 :: SHOWN], np.asarray(of, np.float32)[SHOWN - 1 :: SHOWN])
              for kind, of in sums.items()),
        "bfloat16 has eight binary digits: 256 + 1 is 256. So what is added up step by step, such as a moment of Adam "
        "or a parameter that learns, is kept in float32.",
        x="ones added",
        y="sum",
    )  # fmt: skip
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(state)}
    state, curves = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), state), []
    for number, kept in enumerate((jnp.float32, jnp.bfloat16)):
        name = jnp.dtype(kept).name + (", as yours are" if kinds == {jnp.dtype(kept).name} else "")
        values = []
        for step, value in enumerate(losses(loss, state, rows, kept), 1):
            values.append(value)
            yield Progress(number * STEPS + step, 2 * STEPS, value)
        curves.append(Line(name, np.arange(GAP, STEPS + 1, GAP), np.reshape(values, (-1, GAP)).mean(axis=1)))
    held, (whole, half) = sum(leaf.nbytes for leaf in jax.tree.leaves(state)), (curve.y[-1] for curve in curves)
    yield Lines(
        "Your model learns, with its parameters kept in each type",
        tuple(curves),
        f"{whole:.2f} and {half:.2f} nats after {STEPS} steps. In float32 its parameters take {held:,} bytes, half as "
        "many in bfloat16. But an update is far smaller than a parameter, and when training gets to the small ones, "
        "bfloat16 rounds them "
        "away." + ("" if kinds == {"float32"} else f" Yours are stored in {' and '.join(sorted(kinds))}."),
        y="nats per token",
        log=True,
    )


def misplaced(found: Any) -> str:
    """A sentence on the operations of a model that are in the other type than the problem asks for."""
    products = found["products of matrices"].get("float32", 0)
    told = [f"products in float32 ({products})"] if products else []
    told += [
        f"{name} in bfloat16 ({of['bfloat16']})" for name, of in found.items() if name in SUMS and "bfloat16" in of
    ]
    return f" Still to change in your model: {', '.join(told)}." if told else ""


def losses(loss: Any, state: Any, rows: Any, kept: Any) -> Iterator[float]:
    """Trains from a state and yields the loss of each step. After each, the parameters are rounded to the type
    `kept`."""
    tx = optax.adam(3e-3)

    @jax.jit
    def step(state: Any, moments: Any, ids_BT: jax.Array) -> Any:
        value, slopes = jax.value_and_grad(lambda state: jnp.mean(jax.vmap(lambda ids: loss(state, ids))(ids_BT)))(
            state
        )
        updates, moments = tx.update(slopes, moments, state)
        state = optax.apply_updates(state, updates)
        return jax.tree.map(lambda leaf: leaf.astype(kept).astype(leaf.dtype), state), moments, value

    moments = tx.init(state)
    for number in range(STEPS):
        state, moments, value = step(state, moments, rows[np.arange(number * BATCH, (number + 1) * BATCH) % len(rows)])
        yield float(value)
