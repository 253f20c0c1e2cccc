"""Problem 71: one attention module with the switches of Qwen3, Gemma 3, gpt-oss and Llama 4."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import causality, exact, output, output_and_gradient, parameters
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

ATTENTION, SWITCHES = "Attention", "switches"
SIZES = ("d_model", "num_heads", "num_kv_heads", "head_dim")
NAMES = ("scale", "bias", "qk_norm", "norm_epsilon", "sinks", "rope_base", "pairing", "window", "chunk")
WORDS = ("1", "w", "1 + w", "halves", "adjacent")  # of `qk_norm` and `pairing`; a leaf has their places, below 0
NONE = -10


def activations(sizes: Mapping[str, int], rng: Any, **layer: Any) -> dict[str, Any]:
    """Activations (T, D), and a layer of H = G · R heads of width K with a norm and a window that hides nothing.

    `layer` sets other switches.
    """
    values = {
        "d_model": sizes["D"],
        "num_heads": sizes["G"] * sizes["R"],
        "num_kv_heads": sizes["G"],
        "head_dim": sizes["K"],
        "scale": round(1.3 * sizes["K"] ** -0.5, 3),
        "bias": False,
        "qk_norm": "w",
        "norm_epsilon": round(rng.uniform(0.03, 0.1), 3),
        "sinks": False,
        "rope_base": round(rng.uniform(60, 160), 1),
        "pairing": "halves",
        "window": sizes["T"] + 2,
        "chunk": None,
        **layer,
    }
    return {**values, "x": rng.standard_normal((sizes["T"], sizes["D"])).astype("float32")}


def everything(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A layer with a norm, sinks, biases and a window of W."""
    return activations(sizes, rng, bias=True, qk_norm="1 + w", sinks=True, window=sizes["W"])


def without_positions(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A layer that normalizes but does not rotate, whose positions see only their own chunk, and the window in it."""
    return activations(sizes, rng, rope_base=None, window=sizes["C"] - 1, chunk=sizes["C"])


def loud(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores of about 100, whose exponentials are infinite in float32, and sinks of which one takes everything and one
    nothing."""
    values = activations(sizes, rng, qk_norm=None, sinks=True)
    sinks = [400, -400, *rng.uniform(40, 80, values["num_heads"] - 2)]
    return {**values, "x": 7 * values["x"], "sinks_H": rng.permutation(sinks).astype("float32")}


def file(kind: str, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The fields of a `config.json`, as JSON, and token ids (T,) for a checkpoint of that layout. Its layers are not in
    the order of the files of the hub."""
    L = sizes["L"]
    config = {
        "model_type": kind,
        "attention_bias": kind == "gpt_oss",
        "head_dim": sizes["K"],
        "hidden_size": sizes["D"],
        "num_attention_heads": sizes["G"] * sizes["R"],
        "num_hidden_layers": L,
        "num_key_value_heads": sizes["G"],
        "rms_norm_eps": round(rng.uniform(0.03, 0.1), 3),
        "rope_theta": round(rng.uniform(60, 160), 1),
        "vocab_size": sizes["V"],
    }
    if kind == "qwen3":
        config |= {"sliding_window": sizes["W"], "use_sliding_window": False}
    elif kind == "gemma3_text":
        config |= {
            "query_pre_attn_scalar": sizes["K"] + 3, "rope_local_base_freq": round(rng.uniform(10, 30), 1),
            "sliding_window": sizes["W"], "sliding_window_pattern": 2,
        }  # fmt: skip
    elif kind == "gpt_oss":
        config |= {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": sizes["W"]}
    else:
        config |= {
            "attention_chunk_size": sizes["W"], "no_rope_layers": [0, 1], "use_qk_norm": True,
        }  # fmt: skip
    return {"config": json.dumps(config), "token_ids": rng.integers(0, sizes["V"], sizes["T"]).astype("int32")}


def _named(
    kind: str, L: int, D: int, H: int, G: int, K: int, base: float, epsilon: float, **more: Any
) -> dict[str, Any]:
    """The fields of a file of the hub that concern its attention."""
    return {
        "model_type": kind, "num_hidden_layers": L, "hidden_size": D, "num_attention_heads": H,
        "num_key_value_heads": G, "head_dim": K, "rope_theta": base, "rms_norm_eps": epsilon, "attention_bias": False,
        **more,
    }  # fmt: skip


_GEMMA = {"rope_local_base_freq": 10_000, "sliding_window_pattern": 6}
_LLAMA = {"attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 12}
HUB = {
    "Qwen3-0.6B": _named("qwen3", 28, 1024, 16, 8, 128, 1_000_000, 1e-6, sliding_window=None, use_sliding_window=False),
    "Gemma 3 1B": _named(
        "gemma3_text", 26, 1152, 4, 1, 256, 1_000_000, 1e-6, query_pre_attn_scalar=256, sliding_window=512, **_GEMMA
    ),
    "Gemma 3 27B": _named(
        "gemma3_text", 62, 5376, 32, 16, 128, 1_000_000, 1e-6, query_pre_attn_scalar=168, sliding_window=1024, **_GEMMA
    ),
    "gpt-oss-20b": _named(
        "gpt_oss", 24, 2880, 64, 8, 64, 150_000, 1e-5, sliding_window=128,
        layer_types=["sliding_attention", "full_attention"] * 12,
    ) | {"attention_bias": True},
    "Llama 4 Scout": _named("llama4_text", 48, 5120, 40, 8, 128, 500_000, 1e-5, use_qk_norm=True, **_LLAMA),
    "Llama 4 Maverick": _named("llama4_text", 48, 5120, 40, 8, 128, 500_000, 1e-5, use_qk_norm=False, **_LLAMA),
}  # fmt: skip


def hub(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The file of a model that people use."""
    return {"config": json.dumps(list(HUB.values())[sizes["model"]])}


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the file that decide, one by one."""
    return json.loads(values["config"])


def decoded(number: str) -> str:
    """A switch as Python writes it, from the number of its leaf."""
    value = float(number.replace(",", ""))
    if value == NONE:
        return "None"
    return repr(WORDS[int(-1 - value)]) if value < 0 else f"{value:g}"


def of_layer(case: Case, wrong: Difference) -> str:
    name, (layer,) = wrong.path.rpartition(".")[2], wrong.index
    return f"`{name}` of layer {layer} is {decoded(wrong.got)}, expected {decoded(wrong.expected)}"


# Correct programs differ by 2e-6 after a few layers or in sums of 512 terms, and by 9e-6 in a gradient through the
# norm: factors of 2 for queries and keys make large scores.
DEEP, STEEP = Tolerance(rtol=1e-4, atol=1e-4), Tolerance(rtol=3e-4, atol=3e-4)
# Scores of 100 are rounded to 1e-5, and so is the logarithm of a weight.
LOUD = Tolerance(rtol=1e-3, atol=1e-3)
# One shape for most cases: each new one is compiled. D, H · K and G · K differ.
SHAPE = {"T": (7,), "D": (13,), "G": (2,), "R": (3,), "K": (4,), "W": (3,), "C": (3, 4)}
TINY = {"T": (9,), "D": (10,), "G": (2,), "R": (2,), "K": (6,), "W": (4,), "V": (13,)}
LAYOUTS = {"Qwen3": "qwen3", "Gemma 3": "gemma3_text", "gpt-oss": "gpt_oss", "Llama 4": "llama4_text"}

PROBLEM = Problem(
    title="Attention with today's switches",
    minutes=130,
    builds_on=(37, 39, 40),
    entries=(
        Entry(ATTENTION, ("x",), construct=(*SIZES, *NAMES)),
        Entry(SWITCHES, ("config", "i")),
    ),
    cases={
        "cases": Cases(activations, SHAPE, draws=1),
        "everything": Cases(everything, SHAPE, draws=1),
        "without positions": Cases(without_positions, {**SHAPE, "G": (1,)}, draws=1, covers=("coprime",)),
        "loud": Cases(loud, SHAPE, draws=1),
        "window of 512": Cases(
            everything,
            {"T": (601,), "D": (3,), "G": (1,), "R": (1,), "K": (2,), "W": (512,)}, draws=1, covers=("one",)
        ),
        **{
            name: Cases(partial(file, kind), {**TINY, "L": (1 if kind == "qwen3" else 2,)}, draws=1, show=shown)
            for name, kind in LAYOUTS.items()
        },
        "hub": Cases(hub, {"model": tuple(range(len(HUB)))}, draws=len(HUB), show=shown),
    },
    checks=(
        parameters(ATTENTION, points=1, initial=("q_norm", "k_norm"), cases="everything"),
        output(ATTENTION, points=2),
        causality(ATTENTION, argument="x", points=1),
        *output_and_gradient(
            ATTENTION, wrt="parameters", points=(2, 2), cases="everything",
            names=("norm, sinks and window", "norm, sinks and window, gradient"), tolerance=STEEP,
        ),
        output(ATTENTION, points=1, name="no positions, in chunks", cases="without positions"),
        Check("large scores and sinks", 1, "with_sinks", cases="loud", tolerance=LOUD, calls=(ATTENTION,)),
        output(ATTENTION, points=1, name="a window of 512", cases="window of 512", tolerance=DEEP),
        *(
            exact(f"switches of {name}", 1, "reading", "layers", cases=name, in_words=of_layer, calls=(SWITCHES,))
            for name in LAYOUTS
        ),
        exact("files of the hub", 1, "reading", "layers", cases="hub", in_words=of_layer, calls=(SWITCHES,)),
        *(Check(f"logits of {name}", 1, "checkpoint", leaves="model", cases=name, tolerance=DEEP) for name in LAYOUTS),
    ),
)  # fmt: skip
