"""LoRA: low-rank adapters for the linear layers of a trained model (Hu et al. 2021)."""

import math
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
        self.change = nnx.LoRA(base.in_features, rank, base.out_features, dtype=base.dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.base(x) + self.change(x)

    def merged(self) -> nnx.Linear:
        """The base layer with the change added to its kernel."""
        kernel = self.base.kernel
        kernel[...] = kernel[...] + self.change.lora_a[...] @ self.change.lora_b[...]
        return self.base


class LoRALinearGeneral(nnx.Module):
    """A linear layer over several axes, the last of its input, plus a low-rank change of the same matrix, initially zero."""

    def __init__(self, base: nnx.LinearGeneral, rank: int, rngs: nnx.Rngs):
        self.base = base
        inputs, outputs = (math.prod(features) for features in (base.in_features, base.out_features))
        self.change = nnx.LoRA(inputs, rank, outputs, dtype=base.dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        out = self.base(x)
        flat = x.reshape(*x.shape[: x.ndim - len(self.base.in_features)], -1)
        return out + self.change(flat).reshape(out.shape)

    def merged(self) -> nnx.LinearGeneral:
        """The base layer with the change added to its kernel."""
        kernel = self.base.kernel
        change = self.change.lora_a[...] @ self.change.lora_b[...]
        kernel[...] = kernel[...] + change.reshape(kernel.shape)
        return self.base


def add_adapters(model: nnx.Module, rank: int, rngs: nnx.Rngs, make: AdapterFactory = LoRALinear) -> nnx.Module:
    """Replaces each `nnx.Linear` of the model by an adapter, and each `nnx.LinearGeneral` by one over the same axes, including
    the stacked layers of the blocks.
    """

    def adapter(layer: Any, rngs: nnx.Rngs) -> nnx.Module:
        return (
            make(layer, rank, float(rank), rngs) if type(layer) is nnx.Linear else LoRALinearGeneral(layer, rank, rngs)
        )

    for module, name, value in _attributes(model):
        if type(value) not in (nnx.Linear, nnx.LinearGeneral):
            continue
        axes = 2 if type(value) is nnx.Linear else len(value.in_features) + len(value.out_features)
        if value.kernel.ndim == axes:
            setattr(module, name, adapter(value, rngs))
        else:
            split = nnx.split_rngs(splits=value.kernel.shape[0])
            setattr(module, name, split(nnx.vmap(adapter, in_axes=(0, 0)))(value, rngs))
    return model


def merge_adapters(model: nnx.Module, merge: Callable[[Any], nnx.Linear] = LoRALinear.merged) -> nnx.Module:
    """Replaces each adapter of the model by one linear layer: of an `nnx.Linear` by `merge`, others by their own."""
    for module, name, value in _attributes(model):
        if isinstance(value, LoRALinearGeneral):
            setattr(module, name, value.merged())
        elif isinstance(value, nnx.Module) and isinstance(getattr(value, "base", None), nnx.Linear):
            setattr(module, name, merge(value))
    return model


def _attributes(model: nnx.Module) -> list[tuple[nnx.Module, str, Any]]:
    """All `(module, attribute name, value)` of the model, as a list because the caller replaces attributes."""
    return [(module, *item) for _, module in nnx.iter_modules(model) for item in vars(module).items()]


def base_path(names: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a parameter in the model without adapters: `ff1.base.kernel` becomes `ff1.kernel`."""
    return tuple(name for name in names if name != "base")
