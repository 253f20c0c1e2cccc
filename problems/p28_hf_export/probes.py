"""Probes of problem 28: the two exported files, and the logits that GPT-2 computes from them. Run in workers."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from grader.authoring import Arrays, BadOutputError, Reading, Subject, ToyGPT, eager, new_folder
from grader.problem import Case

EXPORT = "export"
FOLDERS = {"new": "`folder`", "existing": "`folder`, which held an earlier export before the call,"}
SUBNORMAL = 1e-40  # float32 holds it, with fewer bits; arithmetic on a CPU may turn it into 0
SIZES = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
SETTINGS = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "relu",
            "layer_norm_epsilon": 1e-6, "tie_word_embeddings": True}  # fmt: skip
# What GPT-2 also reads from `config.json`: second names of sizes, and keys of which other values than these change the
# logits.
ALIASES = {"max_position_embeddings": "n_positions", "hidden_size": "n_embd", "num_hidden_layers": "n_layer",
           "num_attention_heads": "n_head"}  # fmt: skip
PLAIN: dict[str, list[Any]] = {
    "scale_attn_weights": [True], "scale_attn_by_inverse_layer_idx": [False], "add_cross_attention": [False],
    "pruned_heads": [{}], "quantization_config": [None], "dtype": ["float32", None], "torch_dtype": ["float32", None],
}  # fmt: skip


@eager
def exported(subject: Subject, case: Case) -> Reading:
    """Two folders with the exported files: one that `export_gpt2` makes, with the one that it is in, and one that has
    an earlier export."""
    model, num_heads, top = ToyGPT.of(case), case.values["num_heads"], new_folder() / EXPORT
    positions = np.array(model.pos_embed[...])
    positions[0, 0] = SUBNORMAL
    model.pos_embed[...] = jnp.asarray(positions)
    new, existing = (top / name for name in FOLDERS)
    subject.call("export_gpt2", model, num_heads, str(new))
    existing.mkdir(parents=True, exist_ok=True)
    save_file({"transformer.wte.weight": np.zeros((3, 2), np.float32)}, existing / "model.safetensors")
    (existing / "config.json").write_text("{}")
    subject.call("export_gpt2", model, num_heads, str(existing))
    return Reading(files=top)


def read(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """Every tensor by name, the configuration, the metadata, and the logits, from the exported files of both
    folders."""
    if folder is None:
        raise BadOutputError("`folder` is empty: it has no model.safetensors")
    new, existing = (_read(folder / EXPORT / name, case) for name in FOLDERS)
    if _copied(new) != _copied(existing):
        raise BadOutputError("`export_gpt2` leaves other files in a folder with an earlier export than in a new one")
    return new


def _copied(reading: Reading) -> dict[str, bytes]:
    """What must be the same in both folders. Logits are there in both, but they are computed and may be rounded
    differently."""
    return {name: b"" if name == "logits" else x.tobytes() for name, x in reading.arrays.items()}


def _read(folder: Path, case: Case) -> Reading:
    arrays: Arrays = {}
    tensors, metadata = _tensors(folder / "model.safetensors")
    config = _config(folder / "config.json")
    arrays |= {f"tensors.{name}": x for name, x in sorted(tensors.items())}
    arrays |= {f"config.{key}": _number(config[key]) for key in SIZES if key in config}
    arrays |= {f"settings.{key}": np.int32(config.get(key) == value) for key, value in SETTINGS.items()}
    arrays["metadata"] = np.int32((metadata or {}).get("format") == "pt")
    for key, allowed in (PLAIN | {alias: [config.get(size)] for alias, size in ALIASES.items()}).items():
        if key in config and config[key] not in allowed:
            return Reading(arrays, [f"no logits: `{key}` in config.json changes what GPT-2 computes; leave it out"])
    try:
        arrays["logits"] = _gpt2(tensors, config, np.asarray(case.values["token_ids"])).astype(np.float32)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        return Reading(arrays, [f"no logits: GPT-2 cannot run on these files ({type(error).__name__}: {error})"])
    return Reading(arrays)


def _tensors(path: Path) -> tuple[dict[str, Any], dict[str, str] | None]:
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118  no dictionary
    except (OSError, SafetensorError) as error:
        raise BadOutputError(f"{FOLDERS[path.parent.name]} has no readable {path.name}: {error}") from None


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadOutputError(f"{FOLDERS[path.parent.name]} has no readable {path.name}: {error}") from None
    if not isinstance(config, dict):
        raise BadOutputError(f"{path.name} must hold one JSON object, {{...}}")
    return config


def _number(value: Any) -> Any:
    """A whole number as an integer. `transformers` takes nothing else for a size."""
    return np.int64(value) if type(value) is int and abs(value) < 1 << 63 else np.float64("nan")


def _gpt2(tensors: dict[str, Any], config: dict[str, Any], ids: Any) -> Any:
    """The logits (T, V) that GPT2LMHeadModel computes from these tensors, in NumPy."""
    t = {name.removeprefix("transformer."): x.astype(np.float64) for name, x in tensors.items()}
    epsilon = float(config.get("layer_norm_epsilon", 1e-5))

    def norm(x: Any, name: str) -> Any:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
        return x * t[f"{name}.weight"] + t[f"{name}.bias"]

    def conv1d(x: Any, name: str) -> Any:
        return x @ t[f"{name}.weight"] + t[f"{name}.bias"]

    def activation(x: Any) -> Any:
        if config.get("activation_function") == "relu":
            return np.maximum(x, 0)
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    T, heads = len(ids), config["n_head"]
    x = t["wte.weight"][ids] + t["wpe.weight"][:T]
    for i in range(config["n_layer"]):
        q, k, v = np.split(conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, axis=-1)
        q, k, v = (part.reshape(T, heads, -1).swapaxes(0, 1) for part in (q, k, v))
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        scores = np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(T, -1)
        x = x + conv1d(mixed, f"h.{i}.attn.c_proj")
        x = x + conv1d(activation(conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ t["wte.weight"].T


PROBES = {"exported": exported}
READERS = {"exported": read}
