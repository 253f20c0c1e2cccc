"""Adapters of low rank beside the linear layers of a trained model (Hu et al. 2021)."""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

# (layer, rank, alpha, rngs) -> what stands in its place; it keeps the layer as `base`
MakeAdapter = Callable[[nnx.Linear, int, float, nnx.Rngs], nnx.Module]


class LoRALinear(nnx.Module):
    """A linear layer, and a change of low rank that begins at zero."""

    def __init__(self, base: nnx.Linear, rank: int, alpha: float, rngs: nnx.Rngs):
        del alpha  # the rank, so that the change counts once
        self.base = base
        self.change = nnx.LoRA(base.in_features, rank, base.out_features, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.base(x) + self.change(x)


def adapted(model: nnx.Module, rank: int, rngs: nnx.Rngs, make: MakeAdapter = LoRALinear) -> nnx.Module:
    """The model with an adapter in place of each `nnx.Linear`, also where the layers of all blocks are stacked."""

    def adapter(layer: nnx.Linear) -> nnx.Module:
        stacked = layer.kernel.ndim - 2
        if not stacked:
            return make(layer, rank, float(rank), rngs)
        split = nnx.split_rngs(splits=layer.kernel.shape[0])
        return split(nnx.vmap(lambda layer, rngs: make(layer, rank, float(rank), rngs), in_axes=(0, 0)))(layer, rngs)

    for module, name, value in _attributes(model):
        if type(value) is nnx.Linear:
            setattr(module, name, adapter(value))
    return model


def merged(model: nnx.Module, merge: Callable[[Any], nnx.Linear]) -> nnx.Module:
    """The model with a linear layer in place of each adapter again."""
    for module, name, value in _attributes(model):
        if isinstance(value, nnx.Module) and isinstance(getattr(value, "base", None), nnx.Linear):
            setattr(module, name, merge(value))
    return model


def _attributes(model: nnx.Module) -> list[tuple[nnx.Module, str, Any]]:
    """Each module of the model, with each of its attributes; a list, so that they may be replaced on the way."""
    return [(module, *item) for _, module in nnx.iter_modules(model) for item in vars(module).items()]


def without_adapters(names: tuple[str, ...]) -> tuple[str, ...]:
    """A parameter's path as it was before the adapters: `ff1.base.kernel` is `ff1.kernel`."""
    return tuple(name for name in names if name != "base")
