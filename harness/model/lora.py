"""LoRA: low-rank adapters for the linear layers of a trained model (Hu et al. 2021)."""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

# (layer, rank, alpha, rngs) -> the module that replaces the layer and keeps it as `base`
AdapterFactory = Callable[[nnx.Linear, int, float, nnx.Rngs], nnx.Module]


class LoRALinear(nnx.Module):
    """A linear layer plus a low-rank change, initially zero."""

    def __init__(self, base: nnx.Linear, rank: int, alpha: float, rngs: nnx.Rngs):
        del alpha  # always equals the rank, so the scale alpha / rank is 1
        self.base = base
        self.change = nnx.LoRA(base.in_features, rank, base.out_features, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.base(x) + self.change(x)


def add_adapters(model: nnx.Module, rank: int, rngs: nnx.Rngs, make: AdapterFactory = LoRALinear) -> nnx.Module:
    """Replaces each `nnx.Linear` of the model by an adapter, including the stacked layers of the blocks."""

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


def merge_adapters(model: nnx.Module, merge: Callable[[Any], nnx.Linear]) -> nnx.Module:
    """Replaces each adapter of the model by one linear layer."""
    for module, name, value in _attributes(model):
        if isinstance(value, nnx.Module) and isinstance(getattr(value, "base", None), nnx.Linear):
            setattr(module, name, merge(value))
    return model


def _attributes(model: nnx.Module) -> list[tuple[nnx.Module, str, Any]]:
    """All `(module, attribute name, value)` of the model, as a list because the caller replaces attributes."""
    return [(module, *item) for _, module in nnx.iter_modules(model) for item in vars(module).items()]


def base_path(names: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a parameter in the model without adapters: `ff1.base.kernel` becomes `ff1.kernel`."""
    return tuple(name for name in names if name != "base")
