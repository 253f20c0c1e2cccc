"""Problem 76, played: the trained model with kernels of few bits, what many random roundings add up to, and the
gradients of a layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.stage.model import gpt, into_attention
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import POCKET, encode, held_out

STORY = "Lily had a red ball. Tom wanted the ball. He took it and ran to the park. Lily was sad."
BITS = {"e4m3": 8 + 32 / 32, "mxfp4": 4 + 8 / 32}
SMALL, LARGE = 0.005, 0.1  # nats: the reference changes the loss by 0.001 with e4m3, and by 0.012 with MXFP4
DRAWS = (1, 4, 16, 64, 256)


def play(module: LearnerModule) -> Exhibits:
    """Loss with each format, the error of a mean of draws, and the gradients of a product."""
    (ids_T,) = held_out(1)
    graph = nnx.graphdef(gpt())
    score = jax.jit(lambda state: -jnp.mean(target_log_probabilities(nnx.merge(graph, state), ids_T[None])))
    exact = float(score(nnx.state(gpt())))
    losses = {kind: float(score(nnx.state(gpt(weights=replace(POCKET, arrays=stored(module, kind)))))) for kind in BITS}
    yield Bars(
        "The loss of a story that the model has never seen",
        tuple(Bar(f"{kind}, {BITS[kind]:g} bits a number", loss, exact) for kind, loss in losses.items()),
        "nats per token",
        told_losses(losses["e4m3"] - exact, losses["mxfp4"] - exact),
        names=("your codes", "float32"),
    )
    yield averages(module)
    yield gradients(module)


def restored(module: LearnerModule, x: Any, kind: str, key: Any = None) -> Any:
    """What the learner's codes of x stand for."""
    codes, scales = module.quantize_blocks(x, kind) if key is None else module.quantize_blocks(x, kind, key)
    return codes.astype(jnp.float32) * jnp.repeat(scales.astype(jnp.float32), 32, axis=-1)


def stored(module: LearnerModule, kind: str) -> Mapping[str, Any]:
    """The arrays of the trained model, with each kernel as codes with blocks along its first axis."""
    arrays = dict(POCKET.arrays)
    for name, kernel in POCKET.arrays.items():
        if name.endswith("kernel"):
            arrays[name] = np.asarray(restored(module, jnp.asarray(kernel).T, kind)).T
    return arrays


def told_losses(of_e4m3: float, of_mxfp4: float) -> str:
    """A caption for losses that have changed by so many nats."""
    if not abs(of_e4m3) < SMALL:
        return f"e4m3 changes the loss by {of_e4m3:+.3f} nats: your codes and scales do not stand for the kernels."
    if not abs(of_mxfp4) < LARGE:
        return f"MXFP4 changes the loss by {of_mxfp4:+.2f} nats, more than blocks of 32 would change it."
    return (
        f"e4m3 changes it by {of_e4m3:+.3f} nats and MXFP4 by {of_mxfp4:+.3f}. A model that is shipped in 4 bits is "
        "trained with them for a while, so that it gets used to its codes."
    )


def averages(module: LearnerModule) -> Lines:
    """The error of the mean of several roundings of a gradient, to nearest and at random."""
    x = 0.1 * jax.random.normal(jax.random.key(0), (8, 64))
    nearest = float(jnp.linalg.norm(restored(module, x, "mxfp4") - x) / jnp.linalg.norm(x))
    draw = jax.jit(jax.vmap(lambda key: restored(module, x, "mxfp4", key)))
    drawn = draw(jax.random.split(jax.random.key(1), DRAWS[-1]))
    random = [float(jnp.linalg.norm(drawn[:draws].mean(axis=0) - x) / jnp.linalg.norm(x)) for draws in DRAWS]
    return Lines(
        "The mean of many roundings to MXFP4: how far it is from the exact numbers",
        (Line("to nearest", DRAWS, [nearest] * len(DRAWS)), Line("at random", DRAWS, random)),
        "One random rounding is worse. But its errors cancel over many steps, and those to nearest do not."
        if random[0] > nearest and random[-1] < nearest / 2
        else "Your random rounding is no better after many draws: its mean is not the number, or it does not draw.",
        x="roundings", y="relative error", log=True,
    )  # fmt: skip


def gradients(module: LearnerModule) -> Bars:
    """How far product and gradients are from the exact ones, at a layer of the trained model."""
    x_TD = into_attention(encode(STORY), 1)
    x_TD = x_TD[: len(x_TD) // 32 * 32] if len(x_TD) >= 32 else jnp.tile(x_TD, (32, 1))[:32]
    kernel_DF = jnp.asarray(POCKET.arrays["blocks.1.attn.q_proj.kernel"])
    dy_TF = jax.random.normal(jax.random.key(2), (len(x_TD), kernel_DF.shape[1]))
    dy_TF = dy_TF * jnp.exp(jax.random.normal(jax.random.key(3), (len(x_TD), 1)))  # tokens matter unequally
    exact = (x_TD @ kernel_DF, dy_TF @ kernel_DF.T, x_TD.T @ dy_TF)
    off = {}
    for kind in BITS:
        y, backward = jax.vjp(lambda x, kernel, kind=kind: module.block_matmul(x, kernel, kind), x_TD, kernel_DF)
        pairs = zip((y, *backward(dy_TF)), exact, strict=True)
        off[kind] = [float(jnp.linalg.norm(got - true) / jnp.linalg.norm(true)) for got, true in pairs]
    names = ("product", "gradient of x", "gradient of the kernel")
    return Bars(
        "A layer of the trained model: how far product and gradients are from the exact ones",
        tuple(Bar(name, *pair) for name, *pair in zip(names, *off.values(), strict=True)),
        "relative error",
        "All three are products of codes, so all are off by about as much."
        if 0.005 < min(off["e4m3"]) and max(off["e4m3"]) < 0.08
        else "In e4m3, the product and both gradients should be off by 0.03 or so. One that is exact multiplies "
        "floats, and one that is far off has blocks across its sum.",
        names=("e4m3", "mxfp4"),
    )
