"""Adapters in the format of PEFT: read as changes of the tensors of a model, and written from those of a run."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from harness.data.hub import ADAPTERS
from harness.data.known_fields import unknown_fields
from harness.data.model_files import read_json
from harness.errors import UsageError
from harness.hugging_face.layout import Layout
from harness.hugging_face.parameters import OF_TOKENS, by_path, save

WEIGHTS = "adapter_model.safetensors"
HEAD = "lm_head"  # the module of every model in transformers 5, whatever a file calls its tensor
_PREFIX = "base_model.model."
_FACTORS = re.compile(r"(.+)\.lora_(embedding_)?([AB])(?:\.weight)?")
_OTHER = {"A": "B", "B": "A"}
# Fields that change what adapters compute, and the values that are supported
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",), "bias": ("none",), "use_dora": (False,),
    "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal"),  # others change the base as well
}  # fmt: skip


class Adapters:
    """The changes that the adapters in a folder make, by the full names of the tensors that they change.

    `tensors` are those of its file, and `names` those of the model, whose head is called `head`. Raises UsageError for
    a kind of adapters that the harness does not have, and for a tensor that the model does not have.
    """

    def __init__(self, folder: Path, tensors: Mapping[str, np.ndarray], names: Iterable[str], head: str):
        self._config = _checked(folder / ADAPTERS)
        self._factors: dict[str, dict[str, np.ndarray]] = {}
        self._replaced: dict[str, np.ndarray] = {}  # such as those of modules_to_save
        known = {*names}
        for stored, array in tensors.items():
            name = stored.removeprefix(_PREFIX).replace(".base_layer.", ".")  # a table is saved with its adapters
            found = _FACTORS.fullmatch(name)
            name = f"{found[1]}.weight" if found else name
            name = head if name == f"{HEAD}.weight" else name
            if found is None:
                self._replaced[name] = array
            elif found[2]:  # a table has a row for each token, where a layer has one for each output
                self._factors.setdefault(name, {})[_OTHER[found[3]]] = array.T
            else:
                self._factors.setdefault(name, {})[found[3]] = array
            if name not in known:
                raise UsageError(f"{folder / WEIGHTS} changes {name}, which the model does not have.")
        for name, factors in self._factors.items():
            shapes = [factors[letter].shape for letter in "AB" if letter in factors]
            if [len(shape) for shape in shapes] != [2, 2] or shapes[0][0] != shapes[1][1]:
                raise UsageError(f"{folder / WEIGHTS} has no two factors that fit each other for {name}.")
        self._folder = folder

    def check_tied(self, embed: str, head: str) -> None:
        """Raises UsageError unless the adapters change a head and the embedding that it is tied to alike."""
        parts = [{name: each[letter] for name, each in self._factors.items()} for letter in "AB"]
        none = np.zeros(0)
        if not all(np.array_equal(of.get(embed, none), of.get(head, none)) for of in (*parts, self._replaced)):
            raise UsageError(
                f"The adapters of {self._folder} change the embedding and the head differently, and the model has one "
                "table for both. Train them with ensure_weight_tying=True, or without the embedding and the head."
            )

    def changed(self, name: str, tensor: np.ndarray) -> np.ndarray:
        """The tensor of this name with its change added. Raises UsageError if the change has another shape."""
        if name in self._replaced:
            tensor = self._fitting(name, self._replaced[name], tensor)
        if name not in self._factors:
            return tensor
        factors = self._factors[name]
        change = self._scale(name.removesuffix(".weight"), len(factors["A"])) * (factors["B"] @ factors["A"])
        # The layers of GPT-2 are stored with a row for each input.
        turned = bool(self._config.get("fan_in_fan_out")) and change.T.shape == tensor.shape
        return tensor + self._fitting(name, change.T if turned else change, tensor)

    def _scale(self, module: str, rank: int) -> float:
        patterns = self._config.get("alpha_pattern") or {}
        own = (alpha for key, alpha in patterns.items() if re.match(rf"(.*\.)?({key})$", module))
        alpha = float(next(own, self._config.get("lora_alpha", 8)))
        return alpha / (math.sqrt(rank) if self._config.get("use_rslora") else rank)

    def _fitting(self, name: str, array: np.ndarray, tensor: np.ndarray) -> np.ndarray:
        if array.shape != tensor.shape:
            raise UsageError(
                f"{self._folder / WEIGHTS} changes {name} by an array of shape {array.shape}; in the model it has "
                f"shape {tensor.shape}."
            )
        return array


class Changed(Mapping[str, np.ndarray]):
    """The tensors of a model, each with its change when it is read."""

    def __init__(self, tensors: Mapping[str, np.ndarray], adapters: Adapters):
        self._tensors, self._adapters = tensors, adapters

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._adapters.changed(name, self._tensors[name])


def _checked(file: Path) -> dict[str, Any]:
    config = read_json(file)
    for name, supported in _FIXED.items():
        if (value := config.get(name, supported[0])) not in supported:
            raise UsageError(f"{file}: {name}={value} is not supported; only {' or '.join(map(str, supported))} is.")
    if unknown := unknown_fields(config, ADAPTERS):
        raise UsageError(
            f"{file}: the harness does not know the field {unknown[0]}={config[unknown[0]]!r:.60}, which may change "
            "what the adapters compute. Remove the field if it does not."
        )
    return config


def write_adapters(
    layout: Layout, model: nnx.Module, rank: int, *, vocab_size: int, tied: bool, base: str | None, folder: Path
) -> None:
    """Writes the adapters of a model into an existing folder, with the name of their `base` if it has one.

    Each of q, k and v has adapters of its own. The harness has one pair of factors for all three, of which each gets
    the first and its part of the second, so the rank stays what it is.
    """
    parameters = by_path(model)
    paths = [path.removesuffix(".change.lora_a") for path in parameters if path.endswith(".change.lora_a")]
    factors: list[dict[str, np.ndarray]] = [{}, {}]
    by_input = layout.block_parameters["ff1.kernel"].axes == (0, 1)  # GPT-2's layers
    written: dict[str, np.ndarray] = {}
    for path in paths:
        a, b = (np.asarray(parameters[f"{path}.change.lora_{letter}"], np.float32) for letter in "ab")
        if path in OF_TOKENS:
            written |= _of_table(layout, path, a[:vocab_size], b, tied=tied)
            continue
        kernel = parameters[f"{path}.base.kernel"]
        for found, factor in zip(factors, _as_kernels(layout, path, kernel.shape[1:], a, b), strict=True):
            found |= layout.tensors({f"{path}.kernel": factor})
    for letter, found in zip("AB", factors, strict=True):
        for name, factor in found.items():
            module = name.removesuffix(".weight")
            written[f"{module}.lora_{letter}.weight"] = np.ascontiguousarray(factor.T if by_input else factor)
    modules = {name.rpartition(".lora_")[0] for name in written}
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": rank, "lora_alpha": rank,
        "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": by_input, "inference_mode": True,
        "target_modules": sorted({".".join(module.split(".")[-2:]) for module in modules}),
    }  # fmt: skip
    if tied and "embed" in paths and "embed_tokens" in layout.names("embed")[0]:  # the only name that PEFT knows
        config["ensure_weight_tying"] = True
    (folder / ADAPTERS).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save({f"{_PREFIX}{name}": array for name, array in written.items()}, folder / WEIGHTS)


def _as_kernels(
    layout: Layout, path: str, shape: tuple[int, ...], a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The factors of layers `(L, inputs, r)` and `(L, r, outputs)` as kernels, in which the rank stands in place of
    the outputs or of the inputs."""
    L, inputs, rank = a.shape
    n = next(n for n in range(1, len(shape)) if math.prod(shape[:n]) == inputs)
    _, stored = layout.in_block(f"{path}.kernel")
    # Of an axis that is stored under several names, each index gets the same first factor.
    outputs = [shape[axis] if len(stored.names) > 1 and axis == stored.split else 1 for axis in range(n, len(shape))]
    place = outputs.index(1)
    first = np.broadcast_to(
        np.expand_dims(a.reshape(L, *shape[:n], rank), tuple(1 + n + i for i in range(len(outputs)) if i != place)),
        (L, *shape[:n], *[rank if i == place else size for i, size in enumerate(outputs)]),
    )
    return first, b.reshape(L, rank, *[1] * (n - 1), *shape[n:])


def _of_table(layout: Layout, path: str, a: np.ndarray, b: np.ndarray, *, tied: bool) -> dict[str, np.ndarray]:
    """The factors of the embedding or the head, and of a tied head as well."""
    of_head = {f"{HEAD}.lora_A.weight": b, f"{HEAD}.lora_B.weight": a}
    if path == "head":
        return of_head
    module = layout.names(path)[0].removesuffix(".weight")
    a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    return {f"{module}.lora_embedding_A": a, f"{module}.lora_embedding_B": b, **(of_head if tied else {})}
