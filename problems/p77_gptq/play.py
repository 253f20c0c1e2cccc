"""Problem 77, played: the trained model with the queries, keys and values of all layers in a few bits."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.stage.model import gpt, into_attention
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import POCKET, held_out

T, CALIBRATION, NEW = 128, 12, 6  # positions, and the stories to choose codes by and to measure with
BITS, FEW, LAYER, GROUP = (2, 3, 4, 5, 6, 8), 2, 1, 32


def play(module: LearnerModule) -> Exhibits:
    """The error of three kernels in 4 bits, that of one in 2 to 8 bits, and the loss in 2 bits."""
    stories = np.stack([ids[:T] for ids in held_out(CALIBRATION + NEW)])
    kernels: list[dict[str, Any]] = [
        {part: np.float64(POCKET.arrays[f"blocks.{layer}.attn.{part}_proj.kernel"]) for part in "qkv"}
        for layer in range(POCKET.num_layers)
    ]
    into = [jax.vmap(lambda ids, n=n: into_attention(ids, n))(stories) for n in range(len(kernels))]
    inputs = [np.asarray(x_NTD, "float64") for x_NTD in into]
    known = [x_NTD[:CALIBRATION].reshape(CALIBRATION * T, -1) for x_NTD in inputs]
    new = inputs[LAYER][CALIBRATION:].reshape(NEW * T, -1)

    def yours(W: Any, X: Any, bits: int) -> tuple[Any, Any]:
        codes, scale = module.gptq(W.copy(), X.copy(), bits, GROUP)
        return np.asarray(codes), np.asarray(scale)

    def error(kernel: Any, restored: Any) -> float:
        return float(np.linalg.norm(new @ (restored - kernel)) / np.linalg.norm(new @ kernel))

    found = {part: yours(kernel, known[LAYER], 4) for part, kernel in kernels[LAYER].items()}
    packed = {part: np.asarray(module.pack(codes)) for part, (codes, _) in found.items()}
    through = {part: np.asarray(module.restore(packed[part], found[part][1], GROUP)) for part in found}
    bars = [
        Bar(f"{part}_proj", error(kernel, through[part]), error(kernel, plain(kernel, 4)))
        for part, kernel in kernels[LAYER].items()
    ]
    lost = any(not np.allclose(through[part], by(codes, scale)) for part, (codes, scale) in found.items())
    size = sum(each.nbytes for each in packed.values())
    whole = sum(POCKET.arrays[f"blocks.{LAYER}.attn.{part}_proj.kernel"].nbytes for part in "qkv")
    yield Bars(
        "Three kernels in 4 bits: the error of their outputs on new stories",
        tuple(bars),
        "of the outputs",
        "The weights change on their way through your `pack` and `restore`."
        if lost
        else f"Their codes take {size:,} bytes, an eighth of {whole:,}. {judged(bars)}",
        names=("your codes", "plain rounding"),
    )
    kernel = kernels[LAYER]["q"]
    yield Lines(
        "The error of the queries, by the number of bits",
        (
            Line("your codes", BITS, [error(kernel, by(*yours(kernel, known[LAYER], bits))) for bits in BITS]),
            Line("plain rounding", BITS, [error(kernel, plain(kernel, bits)) for bits in BITS]),
        ),
        "Each bit halves the error. So a curve that is lower by a factor of 0.7 is worth half a bit for each weight.",
        x="bits",
        y="error",
        log=True,
    )
    names = [(layer, part) for layer in range(len(kernels)) for part in "qkv"]
    calibrated = {each: by(*yours(kernels[each[0]][each[1]], known[each[0]], FEW)) for each in names}
    rounded = {each: plain(kernels[each[0]][each[1]], FEW) for each in names}
    score = scorer(stories[CALIBRATION:])
    losses = [score(calibrated), score(rounded), score({})]
    yield Bars(
        f"The loss on new stories, with the queries, keys and values of all layers in {FEW} bits",
        (Bar("your codes", losses[0], losses[2]), Bar("plain rounding", losses[1], losses[2])),
        "nats per token",
        f"Plain rounding adds {losses[1] - losses[2]:.2f} nats, and your codes add {losses[0] - losses[2]:.2f}."
        + ("" if losses[0] < losses[1] else " Yours should add less."),
        names=("in 2 bits", "float32"),
    )


def judged(bars: list[Bar]) -> str:
    """What a comparison with plain rounding says."""
    ratio = float(np.mean([bar.value / (bar.other or 1) for bar in bars]))
    if ratio < 0.9:
        return f"Their error is {ratio:.0%} of that of plain rounding, on stories that your codes were not chosen by."
    if ratio < 1.1:
        return "Their error is that of plain rounding: calibration changes nothing."
    return f"Their error is {ratio:.1f} times that of plain rounding: the corrections do harm."


def by(codes: Any, scale: Any) -> Any:
    """The weights that codes and scales stand for."""
    return codes * np.repeat(scale, GROUP, axis=0)[: len(codes)]


def plain(kernel: Any, bits: int) -> Any:
    """The weights after plain rounding, with the same groups."""
    groups = kernel.reshape(-1, GROUP, kernel.shape[1])
    scale = abs(groups).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    return (np.round(groups / scale) * scale).reshape(kernel.shape)


def scorer(ids_NT: Any) -> Any:
    """A function of some kernels by layer and part that returns the loss of the model that has them."""
    graph = nnx.graphdef(gpt())
    compiled = jax.jit(lambda state: -jnp.mean(target_log_probabilities(nnx.merge(graph, state), ids_NT)))

    def score(kernels: dict[tuple[int, str], Any]) -> float:
        arrays = dict(POCKET.arrays)
        for (layer, part), kernel in kernels.items():
            arrays[f"blocks.{layer}.attn.{part}_proj.kernel"] = np.asarray(kernel, "float32")
        return float(compiled(nnx.state(gpt(weights=replace(POCKET, arrays=arrays)))))

    return score
