"""Probes of problem 71: the switches of all layers of a file, sinks of a given size, and a checkpoint of attention
layers. Run in workers."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, cotangent, described, eager, given, to_fill
from grader.problem import Case
from problems.p71_attention_switches.problem import NAMES, NONE, WORDS

SIZES = {
    "d_model": "hidden_size", "num_heads": "num_attention_heads", "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}  # fmt: skip


def switches_of(subject: Subject, config: Mapping[str, Any], i: int) -> dict[str, Any]:
    """The switches of layer i by name. Raises BadOutputError if they are not the nine of the page."""
    found = subject.call("switches", dict(config), i, returns=(dict, "a dict"))
    for name in NAMES:
        if name not in found:
            raise BadOutputError(f"`switches` returned no {name!r} for layer {i}; it must return all nine switches")
    for name, value in found.items():
        if name not in NAMES:
            raise BadOutputError(f"`switches` returned {name!r} for layer {i}, which is none of the nine switches")
        if not isinstance(value, bool | int | float | str | np.number | None):
            raise BadOutputError(f"`switches` returned {described(value)} as {name!r} for layer {i}")
    return found


def coded(value: Any) -> float:
    """A switch as a number. Numbers are rounded to six digits, because a root may be taken in two ways."""
    if value is None:
        return float(NONE)
    if isinstance(value, str):
        return float(-1 - WORDS.index(value)) if value in WORDS else np.nan
    return float(f"{float(value):.6g}")


@eager
def reading(subject: Subject, case: Case) -> Reading:
    """Each switch of all layers of a file, (L,)."""
    config = json.loads(str(case.values["config"]))
    layers = [switches_of(subject, config, i) for i in range(config["num_hidden_layers"])]
    return Reading({f"layers.{name}": np.array([coded(layer[name]) for layer in layers]) for name in NAMES})


def with_sinks(subject: Subject, case: Case) -> Reading:
    """The output with the sinks of the case, and its gradient with respect to them."""
    graphdef, parameters, rest = subject.build("Attention", case)

    def program(parameters: Any, sinks: Any, x: Any) -> Arrays:
        def output(sinks: Any) -> Any:
            flat = nnx.to_flat_state(parameters)
            state = [(path, each.replace(sinks) if path == ("sinks",) else each) for path, each in flat]
            return nnx.merge(graphdef, nnx.from_flat_state(state), rest)(x)

        out, back = jax.vjp(output, sinks)
        return {"output": out, "gradient.sinks": back(cotangent("output", out))[0]}

    return subject.run(program, case, parameters, given(case, "sinks_H"), given(case, "x"))


def tensors_of(config: Mapping[str, Any]) -> Arrays:
    """The tensors of a checkpoint that has no more than a table and attention layers, by the names of its layout."""
    D, H, G, K = (config[name] for name in SIZES.values())
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], D)}
    for i in range(config["num_hidden_layers"]):
        layer = {"q_proj.weight": (H * K, D), "k_proj.weight": (G * K, D), "v_proj.weight": (G * K, D),
                 "o_proj.weight": (D, H * K)}  # fmt: skip
        own: dict[str, tuple[int, ...]] = {}
        if config["attention_bias"]:
            own |= {name.replace("weight", "bias"): shape[:1] for name, shape in layer.items()}
        if config["model_type"] in ("qwen3", "gemma3_text"):
            own |= {"q_norm.weight": (K,), "k_norm.weight": (K,)}
        if config["model_type"] == "gpt_oss":
            own["sinks"] = (H,)
        shapes |= {f"model.layers.{i}.self_attn.{name}": shape for name, shape in {**layer, **own}.items()}
    return {name: to_fill(name, shape, np.float32) for name, shape in shapes.items()}


def loaded(parameters: Any, tensors: Arrays, i: int) -> Any:
    """The parameters of a layer, from a checkpoint. Raises BadOutputError if one has no tensor, or another shape, or a
    tensor no parameter."""
    prefix = f"model.layers.{i}.self_attn."
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    flat = []
    for path, variable in nnx.to_flat_state(parameters):
        parameter = ".".join(map(str, path))
        name = parameter.replace("kernel", "weight") if len(path) > 1 else parameter.replace("norm", "norm.weight")
        if name not in own:
            raise BadOutputError(f"layer {i} has a parameter `{parameter}`, and this checkpoint has no tensor for it")
        tensor = own.pop(name)
        tensor = tensor.T if path[-1] == "kernel" else tensor
        if variable.shape != tensor.shape:
            raise BadOutputError(f"`{parameter}` of layer {i} has shape {variable.shape}, not {tensor.shape}")
        flat.append((path, variable.replace(tensor)))
    if own:
        raise BadOutputError(f"this checkpoint has `{prefix}{min(own)}`, and your layer has no parameter for it")
    return nnx.from_flat_state(flat)


def checkpoint(subject: Subject, case: Case) -> Reading:
    """What the attention of each layer adds, and the logits, of a small model that has only attention layers.

    Layers read a normalized stream and add to it. The table of the tokens is also the head.
    """
    config = json.loads(str(case.values["config"]))
    layers = []
    for i in range(config["num_hidden_layers"]):
        sizes = {name: config[field] for name, field in SIZES.items()}
        layers.append(subject.build("Attention", replace(case, values={**sizes, **switches_of(subject, config, i)})))

    def normalized(x_TD: Any) -> Any:
        return x_TD * jax.lax.rsqrt(jnp.mean(x_TD**2, axis=-1, keepdims=True) + config["rms_norm_eps"])

    def program(tensors: Arrays, token_ids: Any) -> Arrays:
        table_VD, found = tensors["model.embed_tokens.weight"], {}
        x_TD = table_VD[token_ids]
        for i, (graphdef, parameters, rest) in enumerate(layers):
            layer: Any = nnx.merge(graphdef, loaded(parameters, tensors, i), rest)
            found[f"model.layer_{i}"] = layer(normalized(x_TD))
            x_TD = x_TD + found[f"model.layer_{i}"]
        return {**found, "model.logits": normalized(x_TD) @ table_VD.T}

    return subject.run(program, case, tensors_of(config), given(case, "token_ids"))


PROBES = {"reading": reading, "with_sinks": with_sinks, "checkpoint": checkpoint}
