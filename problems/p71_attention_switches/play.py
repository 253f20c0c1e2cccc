"""Problem 71, played: where a row looks with each switch, what a norm of queries and keys is for, and six files."""

import json
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Table
from problems.p71_attention_switches.problem import HUB

T = 12
PLAIN: dict[str, Any] = {
    "scale": T**-0.5, "bias": False, "qk_norm": None, "norm_epsilon": 1e-6, "sinks": False, "rope_base": 100.0,
    "pairing": "halves", "window": None, "chunk": None,
}  # fmt: skip
DOUBLED = np.arange(9)
LOCAL = {"Qwen3-0.6B": 0, "Gemma 3 1B": 22, "Gemma 3 27B": 52, "gpt-oss-20b": 12, "Llama 4 Scout": 36,
         "Llama 4 Maverick": 36}  # fmt: skip


def play(module: LearnerModule) -> Exhibits:
    """The weights of one head as maps, how sharp they become as the projections grow, and the layers of six files."""
    rows = np.random.default_rng(1).standard_normal((T, T)).astype("float32")
    kernels = np.random.default_rng(2).standard_normal((2, T, T)) / T**0.5

    def weights(growth: float = 1.0, **switches: Any) -> np.ndarray:
        """The weights of a layer with one head, (T, T): its values are the rows of the identity."""
        layer: Any = module.construct(
            "Attention", d_model=T, num_heads=1, num_kv_heads=1, head_dim=T, **{**PLAIN, **switches}
        )()
        arrays = (growth * kernels[0], growth * kernels[1], np.linalg.inv(rows), np.eye(T))
        for linear, array in zip((layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj), arrays, strict=True):
            linear.kernel[...] = jnp.asarray(array, jnp.float32)
        if isinstance(getattr(layer, "sinks", None), nnx.Param):
            layer.sinks[...] = jnp.ones(1)
        return np.asarray(layer(jnp.asarray(rows)))

    switched: dict[str, dict[str, Any]] = {
        "none": {},
        "sink of 1": {"sinks": True},
        "window of 4": {"window": 4},
        "chunks of 4": {"chunk": 4},
    }
    maps = {name: weights(**switches) for name, switches in switched.items()}
    sums, seen = {name: one.sum(axis=1) for name, one in maps.items()}, maps["window of 4"] > 1e-6
    gone = 1 - sums["sink of 1"]
    places = tuple(map(str, range(T)))
    yield HeatMap(
        "Where each row looks, with one switch at a time",
        places,
        places,
        tuple(Plane(one, name) for name, one in maps.items()),
        "Your sink takes nothing: the weights of each row still sum to 1."
        if np.abs(gone).max() < 1e-3
        else f"Your window of 4 shows row {T - 1} {int(seen[-1].sum())} positions."
        if seen[-1].sum() != 4
        else f"The sink takes {gone[0]:.0%} of row 0, which has nothing else to look at, and {gone[-1]:.0%} of the "
        "last row. A window slides with the row. Chunks stand still.",
        meaning="weight",
    )
    free = np.array([weights(2.0**times).max(axis=1).mean() for times in DOUBLED])
    normed = np.array([weights(2.0**times, qk_norm="1").max(axis=1).mean() for times in DOUBLED])
    yield Lines(
        "The largest weight of a row, as the projections of queries and keys are doubled",
        (Line("no norm", DOUBLED, free), Line("QK-norm", DOUBLED, normed)),
        "The mean over the rows. Without the norm, large projections give nearly all weight to one position, and the "
        "softmax learns nothing more. With it, their size does not matter."
        if np.ptp(normed) < 0.01 < np.ptp(free)
        else "With your norm, the weights still depend on the size of the projections.",
        x="times doubled",
        y="weight",
    )
    table, right = [], True
    for name, config in HUB.items():
        layers = [module.switches(json.loads(json.dumps(config)), i) for i in range(config["num_hidden_layers"])]
        local = [layer for layer in layers if layer["window"] or layer["chunk"]]
        bases = sorted({layer["rope_base"] for layer in layers} - {None})
        right &= len(local) == LOCAL[name]
        spans = sorted({layer["window"] or layer["chunk"] for layer in local})
        table.append(
            (
                name,
                f"{len(local)} of {len(layers)}",
                ", ".join(map(str, spans)) or "-",
                ", ".join(f"{base / 1000:g}k" for base in bases),
                str(layers[0]["qk_norm"]),
                f"1/√{layers[0]['scale'] ** -2:.0f}",
            )
        )
    yield Table(
        "Six files of the hub, by your switches",
        ("model", "near", "reach", "bases", "norm", "scale"),
        tuple(table),
        "Layers that see only nearby positions, and how far. The 27B divides by √168 although its heads are 128 wide, "
        "and Maverick has no QK-norm although it shares its class with Scout."
        if right
        else "The layers that see only nearby positions are not as many as these models have.",
    )
