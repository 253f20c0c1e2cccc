"""Problem 19, played: in which numbers the learner's model computes, why a sum needs float32, and how it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Line, Lines, Progress, Table
from problems.stage.programs import dtypes
from problems.stage.weights import POCKET, held_out

TRAINS = True
D, F, T, BATCH, STEPS, GAP = 64, 256, 64, 8, 60, 3
ADDED, SHOWN = 1024, 32


def play(module):
    """The types of the operations of a forward pass; a sum of ones in both types; and the loss while the model trains."""
    rows = np.stack([ids[:T] for ids in held_out(64)])
    model = module.construct("MixedLM", vocab_size=POCKET.vocab_size, d_model=D, d_ff=F)()
    graph, state = nnx.split(model)

    def loss(state, ids_T):
        return module.mixed_loss(nnx.merge(graph, state), ids_T, -1)

    found = dtypes(loss, state, rows[0])
    yield Table(
        "In which numbers your model computes",
        ("operations", "bfloat16", "float32"),
        tuple((name, *(str(of.get(kind, "")) for kind in ("bfloat16", "float32"))) for name, of in found.items()),
        "Products of matrices take nearly all the time, and in bfloat16 they read half the bytes. Everything else takes "
        "little, and needs the digits.",
    )
    ones, sums = np.arange(1, ADDED + 1), {}
    for kind in (jnp.bfloat16, jnp.float32):
        _, sums[kind] = jax.lax.scan(lambda total, one: (total + one, total + one), kind(0), jnp.ones(ADDED, kind))
    yield Lines(
        "Add one, a thousand times",
        tuple(Line(jnp.dtype(kind).name, ones[SHOWN - 1 :: SHOWN], np.asarray(of, np.float32)[SHOWN - 1 :: SHOWN])
              for kind, of in sums.items()),
        "bfloat16 has eight binary digits: 256 + 1 is 256. So a sum over many numbers is taken in float32.",
        x="ones added",
        y="sum",
    )  # fmt: skip
    curves = []
    for number, (name, kept) in enumerate((("float32, as yours are", jnp.float32), ("bfloat16", jnp.bfloat16))):
        values = []
        for step, value in enumerate(losses(loss, state, rows, kept), 1):
            values.append(value)
            yield Progress(number * STEPS + step, 2 * STEPS, value)
        curves.append(Line(name, np.arange(GAP, STEPS + 1, GAP), np.reshape(values, (-1, GAP)).mean(axis=1)))
    held, (whole, half) = sum(leaf.nbytes for leaf in jax.tree.leaves(state)), (curve.y[-1] for curve in curves)
    yield Lines(
        "Your model learns, with its parameters kept in each type",
        tuple(curves),
        f"{whole:.2f} and {half:.2f} nats after {STEPS} steps. Its parameters are {held:,} bytes of float32, and would be half "
        "as many in bfloat16. But an update is far smaller than a parameter, and when training gets to the small ones, bfloat16 "
        "rounds them away.",
        y="nats per token",
        log=True,
    )


def losses(loss, state, rows, kept):
    """Trains from a state and yields the loss of each step. After each, the parameters are rounded to the type `kept`."""
    tx = optax.adam(3e-3)

    @jax.jit
    def step(state, moments, ids_BT):
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
