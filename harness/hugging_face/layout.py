"""What a layout is: how each parameter is stored, and which settings of a model it has."""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.model_config import ModelConfig

Fields = dict[str, Any]  # of config.json


@dataclass(frozen=True)
class Stored:
    """How a parameter of one block, or one outside of the blocks, is stored.

    Its axes are permuted to `axes`, and those between two `cuts` become one: with `cuts=(1,)`, the first becomes the
    rows of a matrix and the others its columns; without cuts, all become one axis. With several names, each index of
    the axis `split` is stored under a name of its own. Where names have an `{e}`, each index of the first axis is
    stored on its own, with its number in the names; the other fields are about one of them.
    """

    names: tuple[str, ...]
    axes: tuple[int, ...] = (0,)
    cuts: tuple[int, ...] = ()
    split: int = 0

    def write(self, parameter: np.ndarray) -> dict[str, np.ndarray]:
        """The tensors of a parameter."""
        return {
            name: np.ascontiguousarray(part.transpose(self.axes).reshape(self._shape(part.shape)))
            for name, part in zip(self.names, self._parts(parameter), strict=True)
        }

    def check(self, shapes: Mapping[str, tuple[int, ...]], shape: tuple[int, ...]) -> None:
        """Raises UsageError unless tensors of these shapes, by name, make up a parameter of that shape."""
        expected = self._shape(self._part_shape(shape))
        for name in self.names:
            if shapes[name] != expected:
                raise UsageError(f"The tensor {name} has shape {shapes[name]}; by config.json it is {expected}.")

    def read(self, tensors: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The parameter of that shape, of tensors whose shapes fit."""
        part = self._part_shape(shape)
        permuted = (tensors[name].reshape([part[axis] for axis in self.axes]) for name in self.names)
        parts = [each.transpose(np.argsort(self.axes)) for each in permuted]
        return np.stack(parts, self.split) if len(parts) > 1 else parts[0]

    def _part_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of each of `_parts`."""
        return shape if len(self.names) == 1 else (*shape[: self.split], *shape[self.split + 1 :])

    def _parts(self, parameter: np.ndarray) -> list[np.ndarray]:
        return [parameter] if len(self.names) == 1 else list(np.moveaxis(parameter, self.split, 0))

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = [shape[axis] for axis in self.axes]
        return tuple(math.prod(sizes[a:b]) for a, b in itertools.pairwise((0, *self.cuts, len(sizes))))


@dataclass(frozen=True)
class Layout:
    """A kind of model in transformers, and its counterpart here."""

    title: str
    model_type: str
    architecture: str
    has: Mapping[str, tuple[Any, ...]]  # the values that settings of the model may have
    prefix: str  # of all names but the head's; files of a model without its head lack it
    block: str  # the prefix of block {i}, after `prefix`
    head: str
    parameters: Mapping[str, Stored]  # outside of the blocks, by path
    block_parameters: Mapping[str, Stored]  # in each block, by path
    fields: Callable[[ModelConfig], Fields]  # config.json
    settings: Callable[[Fields], dict[str, Any]]  # the settings in config.json
    # Fields with one value that is supported, and the value that they have if they are missing.
    fixed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    group: int = 1  # blocks that are stacked together, of which each has a place in the paths

    @property
    def names_experts(self) -> bool:
        """Whether each expert has tensors of its own."""
        return any("{e}" in stored.names[0] for stored in self.block_parameters.values())

    def conflicts(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        """The settings that this layout does not have, with the values that it has."""
        return {name: values for name, values in self.has.items() if getattr(config, name) not in values}

    def of(self, config: ModelConfig) -> "Layout":
        """The layout of a model with these settings, which may have groups of layers."""
        return replace(self, group=config.attention_every or 1)

    def tensors(self, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The tensors by their full names, of parameters by path. Those of the blocks are stacked."""
        tensors: dict[str, np.ndarray] = {}
        for path, parameter in parameters.items():
            for stored, index in self._places(path, parameter.shape):
                tensors |= stored.write(parameter[index])
        return tensors

    def check(self, shapes: Mapping[str, tuple[int, ...]], path: str, shape: tuple[int, ...]) -> None:
        """Raises UsageError unless tensors of these shapes make up the parameter at `path`, KeyError for a missing
        one."""
        for stored, index in self._places(path, shape):
            stored.check(shapes, shape[len(index) :])

    def read(self, tensors: Mapping[str, np.ndarray], path: str, shape: tuple[int, ...]) -> np.ndarray:
        """The parameter at `path`, of that shape, of tensors whose shapes fit. Raises KeyError for a missing one."""
        places = self._places(path, shape)
        if places[0][1] == ():
            return places[0][0].read(tensors, shape)
        parameter = np.empty(shape, np.float32)
        for stored, index in places:  # layer by layer, so that no second copy of all of them exists
            parameter[index] = stored.read(tensors, shape[len(index) :])
        return parameter

    def names(self, path: str, shape: tuple[int, ...] = ()) -> list[str]:
        """The full names of the tensors of the parameter at `path`, whose shape matters in the blocks."""
        return [name for stored, _ in self._places(path, shape) for name in stored.names]

    def in_block(self, path: str) -> tuple[int, Stored]:
        """The place of a block in its group, and how it stores the parameter that has this path in the stack."""
        path = path.removeprefix("blocks.")
        if found := _IN_GROUP.match(path):
            return int(found[1]), self.block_parameters[path.removeprefix(found[0])]
        return 0, self.block_parameters[path]

    def _places(self, path: str, shape: tuple[int, ...]) -> list[tuple[Stored, tuple[int, ...]]]:
        """How the parameter at `path` is stored, with full names: once, for each block, or for each expert of each
        block; and which part of the parameter that is."""
        if path == "head":
            return [(Stored((self.head,), (0, 1), (1,)), ())]
        if not path.startswith("blocks."):
            return [(_named(self.parameters[path], self.prefix), ())]
        place, stored = self.in_block(path)
        blocks = [self.prefix + self.block.format(i=place + i * self.group) for i in range(shape[0])]
        if "{e}" not in stored.names[0]:
            return [(_named(stored, block), (i,)) for i, block in enumerate(blocks)]
        return [(_named(stored, block, e), (i, e)) for i, block in enumerate(blocks) for e in range(shape[1])]


_IN_GROUP = re.compile(r"layers\.(\d+)\.")


def _named(stored: Stored, prefix: str, expert: int = 0) -> Stored:
    return replace(stored, names=tuple(prefix + name.replace("{e}", str(expert)) for name in stored.names))
