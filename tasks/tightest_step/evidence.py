"""The evidence of the tightest step: a witness runs it on eight devices, compares its numbers with those of one device,
and counts what the devices send."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import MeshRun, Offer, RefusedProgramError, Weighed, Witness, mesh_of, run_on_mesh
from tasks.tightest_step.offer import AXIS, BLOCK, DEVICES, B, D, H, L, T, V, shapes

# Of the length of an array's change. Numbers that are rounded to bfloat16 wherever they are sent are up to 0.015 away,
# and with 8 bits for each of them and a scale for each 16, about 0.025.
SAME = 0.02
SAME_LOSS = 0.003  # of the loss: bfloat16 is up to 0.001 away
WORK = 115_000_000  # scalar operations of a device. An eighth of the whole step is 80 million.
PEAK = 2_200_000  # bytes on a device, beside its inputs. All parameters have 1.6 million, and so have their gradients.


def weigh(offered: Offer, seed: int, witness: Witness) -> Iterator[Weighed]:
    """Takes a step on two batches. Yields what was found with the first. Raises RefusedProgramError."""
    compiled = witness.sound(offered.programs["step"])
    _check_places(compiled)
    rng = np.random.default_rng(seed)
    parameters = _drawn(rng)
    run, _ = (_checked(compiled, {**parameters, "tokens": tokens}) for tokens in _batches(rng))
    figures = {"million operations of a device": run.work / 1e6, "million bytes at the peak": run.peak / 1e6}
    yield Weighed(run.sent.total(), "", {name: round(one, 1) for name, one in figures.items()}, dict(run.sent))


def _checked(compiled: Any, arrays: Mapping[str, Any]) -> MeshRun:
    run = run_on_mesh(compiled, arrays)
    _check_numbers(run.outputs, arrays)
    _check_limits(run)
    return run


def _batches(rng: Any) -> Iterator[Any]:
    """A batch of tokens, all of them equally probable, and one of only three different tokens."""
    for known in (np.arange(V), rng.integers(V, size=3)):
        yield rng.choice(known, size=(B, T + 1)).astype(np.int32)


def _check_places(compiled: Any) -> None:
    """Raises RefusedProgramError unless the arrays that a program takes and returns lie where the page says."""
    every = NamedSharding(mesh_of(DEVICES, axes=(AXIS,)), PartitionSpec(AXIS))
    whole = NamedSharding(every.mesh, PartitionSpec())
    expected = {**shapes(), "tokens": (B, T + 1)}
    for item, found in zip(compiled.program.inputs, compiled.shardings("parameter"), strict=True):
        if item.source != "case" or expected.get(item.name) != item.shape:
            raise RefusedProgramError(f"its program takes an array that does not exist, {item.name!r:.60}")
        if not found.is_equivalent_to(every, len(item.shape)):
            raise RefusedProgramError(f"it takes `{item.name}` in another way than split along the first axis")
    returned = dict(zip(compiled.program.outputs, compiled.output_shapes, strict=True))
    if returned != {"loss": (), **shapes()}:
        raise RefusedProgramError("it returns other arrays than the loss and the parameters")
    for (name, shape), found in zip(returned.items(), compiled.shardings("output"), strict=True):
        if not found.is_equivalent_to(every if shape else whole, len(shape)):
            where = "split along the first axis" if shape else "the same on all devices"
            raise RefusedProgramError(f"it returns `{name}` in another way than {where}")


def _check_numbers(found: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Raises RefusedProgramError if outputs are not those of a step on one device."""
    old = {name: arrays[name] for name in shapes()}
    loss, gradients = _reference()(old, arrays["tokens"])
    far = {name: _length(old[name] - np.asarray(found[name]) - gradients[name]) for name in old}
    far = {name: length / _length(gradients[name]) for name, length in far.items()}
    worst = max(far, key=lambda name: np.nan_to_num(far[name], nan=np.inf))
    if not far[worst] <= SAME:
        raise RefusedProgramError(
            f"the change of `{worst}` differs from that on one device by {far[worst]:.1%} of its length, and the task "
            f"allows {SAME:.1%}"
        )
    if not abs(float(found["loss"]) - loss) <= SAME_LOSS * loss:
        raise RefusedProgramError(f"its loss is {float(found['loss']):.4f}, and that on one device is {loss:.4f}")


def _length(array: Any) -> float:
    return float(np.linalg.norm(np.asarray(array, np.float64)))


def _check_limits(run: MeshRun) -> None:
    """Raises RefusedProgramError if a device does more than its part of the work, or holds too much."""
    if run.work > WORK:
        raise RefusedProgramError(
            f"each device has {run.work:,} operations, and the limit is {WORK:,}; what is outside of `jax.shard_map` "
            "counts as if each device did all of it"
        )
    if run.peak > PEAK:
        raise RefusedProgramError(f"a device holds {run.peak:,} bytes at its peak, and the limit is {PEAK:,}")


def _drawn(rng: Any) -> dict[str, Any]:
    """Parameters whose logits are far from uniform, so that no part of the gradient is small."""
    drawn = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes().items()}
    scales = {name: 1 / 4 if name == "embed" else 1 / 16 for name in drawn}
    return {name: 1 + x / 10 if x.ndim == 1 else np.float32(scales[name]) * x for name, x in drawn.items()}


@cache
def _reference() -> Any:
    """A function that returns the mean loss of a batch, and its gradients."""

    def norm(x: Any, scale: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale

    def attention(x: Any, q: Any, k: Any, v: Any, o: Any) -> Any:
        q, k, v = ((x @ w).reshape(B, T, H, D // H) for w in (q, k, v))
        scores = jnp.einsum("bthk,bshk->bhts", q, k) / (D // H) ** 0.5
        weights = jax.nn.softmax(jnp.where(jnp.tri(T, dtype=bool), scores, -jnp.inf))
        return jnp.einsum("bhts,bshk->bthk", weights, v).reshape(B, T, D) @ o

    def loss(parameters: Any, tokens: Any) -> Any:
        x = parameters["embed"][tokens[:, :-1]]
        for i in range(L):
            p = {name: parameters[f"blocks.{i}.{name}"] for name in BLOCK}
            x = x + attention(norm(x, p["norm1"]), p["q"], p["k"], p["v"], p["o"])
            y = norm(x, p["norm2"])
            x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
        chosen = jax.nn.log_softmax(norm(x, parameters["norm"]) @ parameters["embed"].T)
        return -jnp.mean(jnp.take_along_axis(chosen, tokens[:, 1:, None], -1))

    return jax.jit(jax.value_and_grad(loss))
