"""LoRA: low-rank adapters for the linear layers and the token tables of a trained model (Hu et al. 2021)."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from flax import nnx

from harness.model.gpt import mark_stacked
from harness.model.layers import Projection

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
    """A linear layer over several axes, the last of its input, plus a low-rank change of the same matrix, initially
    zero."""

    def __init__(self, base: nnx.LinearGeneral, rank: int, rngs: nnx.Rngs):
        self.base = base
        inputs, outputs = (math.prod(features) for features in (base.in_features, base.out_features))
        self.change = nnx.LoRA(inputs, rank, outputs, dtype=base.dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        out = self.base(x)
        flat = x.reshape(*x.shape[: x.ndim - len(self.base.in_features)], -1)
        return out + self.change(flat).reshape(out.shape)

    @property
    def kernel(self) -> jax.Array:
        """The kernel of the base layer with the change added."""
        change = self.change.lora_a[...] @ self.change.lora_b[...]
        return self.base.kernel[...] + change.reshape(self.base.kernel.shape)

    def merged(self) -> nnx.LinearGeneral:
        """The base layer with the change added to its kernel."""
        self.base.kernel[...] = self.kernel
        return self.base


class LoRATable(nnx.Module):
    """A table `(V, D)` of token vectors plus a low-rank change, initially zero. Indexed like the `nnx.Param` that it
    replaces.

    The factor with a row for each token is the zero one: from the first step on, a token's vector moves on its own.
    """

    def __init__(self, base: nnx.Param, rank: int, rngs: nnx.Rngs):
        V, D = base.shape
        zeros, normal = nnx.initializers.zeros_init(), nnx.initializers.normal(D**-0.5)
        self.base = base
        self.change = nnx.LoRA(V, rank, D, a_initializer=zeros, b_initializer=normal, rngs=rngs)

    def __getitem__(self, index: Any) -> jax.Array:
        return self.base[index] + self.change.lora_a[index] @ self.change.lora_b[...]

    def merged(self) -> nnx.Param:
        """The table with the change added."""
        self.base[...] = self[...]
        return self.base


def add_adapters(
    model: nnx.Module, rank: int, targets: frozenset[str], rngs: nnx.Rngs, make: AdapterFactory = LoRALinear
) -> nnx.Module:
    """Replaces each layer and table in the `targets` by an adapter, including the stacked layers of the blocks."""

    # Stacked layers are cloned: in NNX's tree mode, `nnx.vmap` may not return what it was given.
    def adapter(value: Any, rngs: nnx.Rngs) -> nnx.Module:
        if type(value) is nnx.Linear:
            return make(value, rank, float(rank), rngs)
        return (LoRATable if isinstance(value, nnx.Param) else LoRALinearGeneral)(value, rank, rngs)

    for names, module, value in list(_attributes(model)):
        if _target(names, value) not in targets:
            continue
        if isinstance(value, nnx.Param) or value.kernel.ndim == _axes(value):
            setattr(module, names[-1], adapter(value, rngs))
        else:
            split = nnx.split_rngs(splits=value.kernel.shape[0])
            build = nnx.vmap(lambda layer, rngs: adapter(nnx.clone(layer), rngs), in_axes=(0, 0))
            setattr(module, names[-1], mark_stacked(split(build)(value, rngs)))
    return model


def merge_adapters(model: nnx.Module, merge: Callable[[Any], nnx.Linear] = LoRALinear.merged) -> nnx.Module:
    """Replaces each adapter of the model by what it adapts, with the change added: of an `nnx.Linear` by `merge`."""
    for names, module, value in list(_attributes(model)):
        if isinstance(value, LoRALinearGeneral | LoRATable):
            setattr(module, names[-1], value.merged())
        elif isinstance(value, nnx.Module) and isinstance(base := getattr(value, "base", None), nnx.Linear):
            stacked = nnx.vmap(lambda layer: merge(nnx.clone(layer)))
            setattr(module, names[-1], (merge if base.kernel.ndim == _axes(base) else stacked)(value))
    return model


def _target(names: tuple[str, ...], value: Any) -> str | None:
    """The part of the model that a layer or a table at a path belongs to; None for all else."""
    if type(value) in (nnx.Linear, nnx.LinearGeneral, Projection):
        return "attn" if "attn" in names else "head" if names[-1] == "head" else "mlp"
    if isinstance(value, nnx.Param):
        return {("embed",): "embed", ("embed", "embedding"): "embed", ("head",): "head"}.get(names[-2:])
    return None


def _axes(layer: Any) -> int:
    """The number of axes of a linear layer's kernel, without the one over stacked layers."""
    return 2 if isinstance(layer, nnx.Linear) else len(layer.in_features) + len(layer.out_features)


def _attributes(model: nnx.Module) -> Iterator[tuple[tuple[str, ...], nnx.Module, Any]]:
    """`(path of names, module, value)` of each attribute of the model and its modules."""
    for path, module in nnx.iter_modules(model):
        for name, value in vars(module).items():
            yield (*map(str, path), name), module, value


def base_path(names: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a parameter in the model without adapters: `ff1.base.kernel` becomes `ff1.kernel`."""
    return tuple(name for name in names if name != "base")
