"""Probes of problem 31: an adapted layer, its training inside a model, and its merged form. Run in workers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described, fill_module, filled, named
from grader.worker.subject import Reading, Subject


class Stack(nnx.Module):
    """An adapted layer, a tanh and a frozen scale."""

    def __init__(self, adapted: Any, d_out: int) -> None:
        self.adapted = adapted
        self.scale = nnx.Param(jnp.ones(d_out))

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.tanh(self.adapted(x)) * self.scale[...]


def adapting(subject: Subject, case: Case) -> Reading:
    """The layer's variables, its initial difference from the base, its output with a given adapter, and its merged form."""
    x = jnp.asarray(case.values["x"])
    base, layer = _layer(subject, case, x.shape[1])
    start = layer(x) - base(x)
    _fill(layer, case.seed)
    before = jax.tree.map(np.asarray, nnx.state(layer))
    merged = subject.call("merge", layer)
    if type(merged) is not nnx.Linear:  # a subclass could still hold the adapter
        raise BadOutputError(f"`merge` returned {described(merged)}; it must return a plain nnx.Linear")
    after = jax.tree.map(np.asarray, nnx.state(layer))
    changed = any(not np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True))
    return Reading(
        {
            **{f"variables.{path}": np.zeros(leaf.shape) for path, leaf in named(before, "").items()},
            "variables.adapters": np.int32(len(jax.tree.leaves(nnx.state(layer, nnx.LoRAParam)))),
            "change_at_start": start,
            "output": layer(x),
            **named(nnx.state(merged), "merged"),
            "merged.output": merged(x),
            "changed_by_merging": np.int32(changed),
        }
    )


def starting(subject: Subject, case: Case) -> Reading:
    """The root mean square of each matrix of a fresh adapter, and whether other `rngs` give the same a."""
    d_in = int(case.values["d_in"])
    _, layer = _layer(subject, case, d_in)
    _, other = _layer(subject, replace(case, seed=case.seed + 1), d_in)
    same = jnp.array_equal(layer.a[...], other.a[...])
    spreads = {f"spread.{name}": jnp.sqrt(jnp.mean(jnp.square(getattr(layer, name)[...]))) for name in "ab"}
    return Reading({**spreads, "same_a_with_other_rngs": np.int32(same)})


def training(subject: Subject, case: Case) -> Reading:
    """The adapter after three steps, whether anything else changed, and the size of the optimizer's state."""
    values = case.values
    x = jnp.asarray(values["x"])
    _, layer = _layer(subject, case, x.shape[1])
    _fill(layer, case.seed)
    model = Stack(layer, int(values["d_out"]))
    kind = nnx.Optimizer, "an nnx.Optimizer"
    optimizer = subject.call("lora_optimizer", model, values["learning_rate"], returns=kind)
    others = nnx.Not(nnx.LoRAParam)
    before = jax.tree.map(np.asarray, nnx.state(model, others))

    @nnx.jit
    def step(model: Stack, optimizer: nnx.Optimizer) -> None:
        gradients = nnx.grad(lambda model: jnp.mean((model(x) - 0.5) ** 2), argnums=nnx.DiffState(0, optimizer.wrt))(
            model
        )
        optimizer.update(model, gradients)

    for _ in range(3):
        step(model, optimizer)
    after = jax.tree.map(np.asarray, nnx.state(model, others))
    moved = {
        path: np.int32(not np.array_equal(leaf, named(after, "")[path])) for path, leaf in named(before, "").items()
    }
    return Reading(
        {
            **{f"base_moved.{path}": flag for path, flag in moved.items()},
            **named(nnx.state(model, nnx.LoRAParam), "adapter"),
            "numbers_of_state": np.int32(sum(leaf.size for leaf in jax.tree.leaves(nnx.state(optimizer)) if leaf.ndim)),
        }
    )


def _layer(subject: Subject, case: Case, d_in: int) -> tuple[nnx.Linear, Any]:
    values = case.values
    base = nnx.Linear(d_in, int(values["d_out"]), rngs=nnx.Rngs(0))
    fill_module(base, case.seed)
    layer = subject.call("LoRALinear", base, values["rank"], values["alpha"], nnx.Rngs(case.seed))
    missing = [name for name in ("base", "a", "b") if not hasattr(layer, name)]
    if missing:
        raise BadOutputError(f"a `LoRALinear` must have `base`, `a` and `b`; yours has no `{missing[0]}`")
    return base, layer


def _fill(layer: Any, seed: int) -> None:
    for name in "ab":
        variable = getattr(layer, name)
        variable[...] = jnp.asarray(filled(name, variable.shape, np.float32, seed))


PROBES = {"adapting": adapting, "starting": starting, "training": training}
