"""Reads models that transformers saved: config.json as settings, safetensors as parameters."""

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from harness.config import HUGGING_FACE
from harness.data.hub import base_of, holder
from harness.data.known_fields import unknown_fields
from harness.data.model_files import read_json, regular
from harness.data.tokenizer import TOKENIZERS, get_tokenizer
from harness.errors import UsageError
from harness.hugging_face.adapters import WEIGHTS, Adapters, Changed
from harness.hugging_face.layout import Layout
from harness.hugging_face.layouts import GPT_OSS, LAYOUTS
from harness.hugging_face.mxfp4 import BLOCKS, METHOD, SCALES, decoded, shape_of
from harness.hugging_face.parameters import shapes, with_rows
from harness.model_config import ModelConfig

# Masks and frequencies that old versions saved, which follow from the config; and the module of Qwen3-Next that
# predicts two tokens ahead, which transformers does not read either.
_BUFFERS = re.compile(r"\.(attn|attention)\.(bias|masked_bias)$|\.rotary_emb\.inv_freq$|^mtp\.")
MOST_LAYERS = 10_000
MOST = (1 << 31) - 1  # of any other size: positions and ids have 32 bits
_IN_FOLDER = re.compile(r"[^/\\]+\.safetensors")
_DTYPES = {"BF16": "bfloat16", "F16": "float16"}
_BLOCK = 1 << 24  # bytes of two tensors that are compared at a time
_INDEX, _WEIGHTS = "model.safetensors.index.json", "model.safetensors"
# Fields of any model with one value that is supported, and the value that they have if they are missing.
_FIXED = {"quantization_config": (None, None), "add_cross_attention": (False, False)}


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of the model in a folder, and of its tokenizer if the folder has one.

    Raises UsageError if config.json or the tokenizer says anything that the harness does not have, or if there are
    parameters and config.json says other shapes.
    """
    # The shapes of parameters are compared before anything is made of such sizes.
    settings = Parameters(folder).settings if _has_weights(base_of(folder)) else _read_settings(base_of(folder))[1]
    folder = holder(folder, "tokenizer.json")
    if (folder / "tokenizer.json").exists():
        name = get_tokenizer(f"{HUGGING_FACE}{folder}").name
        settings["tokenizer"] = name if name in TOKENIZERS else f"{HUGGING_FACE}{folder}"
    return settings


class Parameters(Mapping[str, np.ndarray]):
    """The parameters of the model in a folder as float32, by their path in the GPT of these settings. Adapters are
    merged.

    Each is read when it is asked for, so that the host need not hold all of them. `rows` is the number of rows per
    token, if that is more than the vocabulary has. `self.folder` is that of the model, also where adapters of another
    folder change it. A head that is tied by config.json, and differs from the embedding in the files, is a head of its
    own, as in transformers; `settings` says so. Raises UsageError if a tensor is missing, has another shape than
    config.json says, or belongs to no parameter.
    """

    def __init__(self, folder: Path, rows: int = 0):
        adapters, self.folder, self._rows = folder, base_of(folder), rows
        folder = self.folder
        self.layout, self.settings = _read_settings(folder)
        self._files = _files(folder, self.layout)
        if self.settings.get("tied_head") and _has_own_head(self._files, self.layout):
            self.settings["tied_head"] = False
        config = ModelConfig(**self.settings)
        _check_sizes(folder, self.layout, config, self._files)
        self.layout = self.layout.of(config)
        self._shapes = shapes(config)
        self._names = {path: self.layout.names(path, shape) for path, shape in self._shapes.items()}
        used = {name for names in self._names.values() for name in names}
        if missing := used - self._files.keys():
            is_head = missing == {self.layout.head}
            tied = " If its head is the embedding, set tie_word_embeddings to true in config.json." if is_head else ""
            raise UsageError(f"The tensor {min(missing)} is missing in {folder}.{tied}")
        used |= {self.layout.head} if config.tied_head else set()
        if unknown := [name for name in self._files if name not in used and not _BUFFERS.search(name)]:
            raise UsageError(
                f"{folder} has the tensor {unknown[0]}, which the harness's {self.layout.title} does not have."
            )
        stored = {name: place.shape for name, place in self._files.items()}
        try:
            for path, shape in self._shapes.items():
                if shape[0]:  # a stack over no layers has no tensors
                    self.layout.check(stored, path, shape)
        except UsageError as error:
            raise UsageError(f"{folder} does not fit its config.json. {error}") from error
        self._adapters = None
        if adapters != folder:
            self._adapters = Adapters(adapters, _tensors_of(adapters / WEIGHTS), used, self.layout.head)
            if config.tied_head:
                self._adapters.check_tied(self._names["embed"][0], self.layout.head)

    @property
    def dtypes(self) -> dict[str, str]:
        """The dtypes of all tensors of the folder, as NumPy calls them, by their full names. None has more bits than
        float32."""
        return {name: _DTYPES.get(place.dtype, "float32") for name, place in self._files.items()}

    def tensors(self) -> dict[str, np.ndarray]:
        """All tensors of the folder by their full names, as float32, of files as they are: with buffers and a tied
        head."""
        with contextlib.ExitStack() as open_files:
            return dict(self._read(open_files))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def __getitem__(self, path: str) -> np.ndarray:
        if path not in self._shapes:
            raise KeyError(path)
        with contextlib.ExitStack() as open_files:  # closed at once: their pages count as memory
            parameter = self.layout.read(self._read(open_files), path, self._shapes[path])
        return with_rows(path, parameter, self._rows)

    def _read(self, open_files: contextlib.ExitStack) -> Mapping[str, np.ndarray]:
        tensors = _Tensors(self._files, open_files)
        return Changed(tensors, self._adapters) if self._adapters else tensors


class _Place(NamedTuple):
    """Where a tensor is stored, its shape, and its dtype as safetensors calls it. With `scales`, it is in blocks of
    four bits, and the shape is that of its numbers."""

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: "_Place | None" = None


class _Tensors(Mapping[str, np.ndarray]):
    """The tensors of a folder by full name, in float32. Each is read when it is asked for; their files stay open."""

    def __init__(self, files: Mapping[str, _Place], open_files: contextlib.ExitStack):
        self._files, self._open_files, self._opened = files, open_files, dict[Path, Any]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, name: str) -> np.ndarray:
        place = self._files[name]
        if place.scales:
            return decoded(np.asarray(self._stored(place)), np.asarray(self._stored(place.scales)))
        return np.asarray(self._stored(place), np.float32)

    def _stored(self, place: _Place) -> Any:
        if place.file not in self._opened:
            self._opened[place.file] = self._open_files.enter_context(_opened(place.file))
        return self._opened[place.file].get_tensor(place.name)


def _read_settings(folder: Path) -> tuple[Layout, dict[str, Any]]:
    file = folder / "config.json"
    found = read_json(file)
    layout = next((layout for layout in LAYOUTS if layout.model_type == found.get("model_type")), None)
    if layout is None:
        known = ", ".join(layout.model_type for layout in LAYOUTS)
        raise UsageError(f"{file}: model_type={found.get('model_type')} is not supported; only {known} are.")
    for name, (supported, default) in (_FIXED | dict(layout.fixed)).items():
        value = found.get(name, default)
        if name == "quantization_config" and value:
            how = value.get("quant_method", value) if isinstance(value, dict) else value
            if how == METHOD and layout is GPT_OSS:
                continue
            raise UsageError(
                f"{file}: the weights are quantized ({how}), which is not supported. Save the model in bfloat16 first."
            )
        if value != supported:
            raise UsageError(f"{file}: {name}={value} is not supported; only {supported} is.")
    if unknown := unknown_fields(found, "config.json", layout.model_type):
        raise UsageError(
            f"{file}: the harness does not know the field {unknown[0]}={found[unknown[0]]!r:.60}, which may change "
            "what the model computes. Remove the field if it does not."
        )
    layers = found.get("n_layer", found.get("num_hidden_layers"))
    if isinstance(layers, int) and layers > MOST_LAYERS:  # some layouts list them
        raise UsageError(f"{file}: {layers} layers are not supported; at most {MOST_LAYERS:,} are.")
    try:
        settings = {"vocab_size": found["vocab_size"], **layout.settings(found)}
        _check_kinds(settings)
        config = ModelConfig(**settings)
    except KeyError as error:
        raise UsageError(f"{file} has no field {error}.") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"{file} is not the config of a model ({type(error).__name__}: {error}).") from error
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
    for name, supported in layout.conflicts(config).items():
        only = " or ".join(map(str, supported))
        raise UsageError(
            f"{file} asks for {name}={getattr(config, name)}; a {layout.title} model has only {name}={only}."
        )
    return layout, settings


def _check_kinds(settings: dict[str, Any]) -> None:
    """Raises UsageError for what is no number where the settings have one, and for sizes that are too large."""
    kinds: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float)}
    for entry in fields(ModelConfig):
        value = settings.get(entry.name, entry.default)
        if type(entry.default) not in kinds:
            continue
        if not isinstance(value, kinds[type(entry.default)]) or isinstance(value, bool):
            raise UsageError(f"{entry.name}={value!r:.40} is not valid; write a value such as {entry.default}.")
        if isinstance(value, int) and value > MOST:
            raise UsageError(f"{entry.name}={value} is not supported; sizes are at most {MOST:,}.")


def _has_weights(folder: Path) -> bool:
    return (folder / _WEIGHTS).exists() or (folder / _INDEX).exists()


def _files(folder: Path, layout: Layout) -> dict[str, _Place]:
    """The place of each tensor, by its full name: in model.safetensors, or in the files that its index lists."""
    if not _has_weights(folder):
        raise UsageError(f"{folder} has no model.safetensors. Other formats, such as pytorch_model.bin, are not read.")
    names = [_WEIGHTS] if (folder / _WEIGHTS).exists() else _listed(folder / _INDEX)
    found: dict[str, _Place] = {}
    for name in names:
        with _opened(folder / name) as opened:
            for stored in opened.keys():  # noqa: SIM118 - it is no mapping
                tensor = opened.get_slice(stored)
                found[stored] = _Place(folder / name, stored, tuple(tensor.get_shape()), tensor.get_dtype())
    found = _with_blocks(found, folder)
    if not any(name.startswith(layout.prefix) for name in found):  # saved without its head
        found = {name if name == layout.head else layout.prefix + name: place for name, place in found.items()}
    return found


def _with_blocks(found: dict[str, _Place], folder: Path) -> dict[str, _Place]:
    """The places, in which blocks and their scales are one tensor. Raises UsageError if their shapes do not fit."""
    for name, blocks in list(found.items()):
        whole = name.removesuffix(BLOCKS)
        if whole == name or whole + SCALES not in found or blocks.dtype != "U8":
            continue
        scales = found.pop(whole + SCALES)
        shape = shape_of(blocks.shape, scales.shape)
        if shape is None or scales.dtype != "U8" or whole in found:
            raise UsageError(
                f"The tensor {name} in {folder} has shape {blocks.shape} and its scales {scales.shape}, which are no "
                "blocks of MXFP4."
            )
        del found[name]
        found[whole] = blocks._replace(shape=shape, dtype="BF16", scales=scales)
    return found


def _tensors_of(file: Path) -> dict[str, np.ndarray]:
    """All tensors of a file as float32."""
    with _opened(file) as opened:
        return {name: np.asarray(opened.get_tensor(name), np.float32) for name in opened.keys()}  # noqa: SIM118


def _has_own_head(files: Mapping[str, _Place], layout: Layout) -> bool:
    """Whether the files have a head that differs from the embedding, as programs that merge adapters have written."""
    (embed,) = layout.names("embed")
    if not {embed, layout.head} <= files.keys():
        return False
    first, second = files[embed], files[layout.head]
    if (first.shape, first.dtype) != (second.shape, second.dtype) or not math.prod(first.shape):
        return True
    stored, other = _bytes_of(first), _bytes_of(second)
    return any((stored[i : i + _BLOCK] != other[i : i + _BLOCK]).any() for i in range(0, len(stored), _BLOCK))


def _bytes_of(place: _Place) -> np.ndarray:
    """The bytes of a tensor, (N,) uint8, mapped from its file: JAX, which reads tensors elsewhere, may not have been
    set up yet."""
    with place.file.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start, stop = json.loads(file.read(length))[place.name]["data_offsets"]
    return np.memmap(place.file, np.uint8, "r", offset=8 + length + start, shape=(stop - start,))


def _listed(index: Path) -> list[str]:
    """The names of the files in an index. Raises UsageError for what is no name of a file in the folder of the
    index."""
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        raise UsageError(f"{index} is not an index: its weight_map does not name a file for each tensor.")
    names = sorted(set(named.values()))
    if others := [name for name in names if not (_IN_FOLDER.fullmatch(name) and name.isprintable())]:
        raise UsageError(f"{index} names the file {others[0]!r}, which is not in its folder.")
    return names


def _check_sizes(folder: Path, layout: Layout, config: ModelConfig, found: Mapping[str, _Place]) -> None:
    """Raises UsageError for sizes that no tensor of these files can have. Those that pass cost little to compare in
    detail."""
    most = max((math.prod(place.shape) for place in found.values()), default=0)
    sizes = {
        "layers": config.num_layers,
        "tokens": config.vocab_size,
        "d_model": config.d_model,
        "d_ff": config.d_ff,
        "numbers in its heads": config.num_heads * config.per_head,
        "positions": config.context if config.positions == "learned" else 0,
        "experts": config.experts,
        "numbers of keys": config.key_heads * config.key_width,
        "numbers of values": config.value_heads * config.value_width,
        "positions of a convolution": config.conv_width if config.mixer == "gated_delta" else 0,
    }
    of_a_layer = (len(found) if layout.names_experts else most) // max(config.num_layers, 1)
    limits = {"layers": len(found), "experts": of_a_layer}
    for name, size in sizes.items():
        if size > limits.get(name, most):
            raise UsageError(
                f"{folder} does not fit its config.json, by which it has {size:,} {name}: the {len(found)} tensors of "
                "its files are too few or too small."
            )


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    regular(file)
    try:
        with safe_open(file, framework="flax") as opened:  # NumPy has no bfloat16
            yield opened
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{file} cannot be read: {error}.") from error
