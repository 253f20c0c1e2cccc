"""Problem 45, played: the trained model with the learner's int8 codes in place of its kernels."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.stage import telling
from problems.stage.model import gpt, into_attention
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import POCKET, encode, held_out

STORY = "Lily had a red ball. Tom wanted the ball. He took it and ran to the park. Lily was sad."
LAYER = 1
SMALL, LARGE = 0.001, 0.05  # nats: the reference changes the loss by 0.0002, one scale for each whole kernel by more
OPENING = "There once was a lazy"


def play(module: LearnerModule) -> Exhibits:
    """Bytes and loss with float32 and with codes, the error of a product beside its bound, and a story."""
    arrays, number_of_bytes = dict(POCKET.arrays), 0
    for name, kernel in POCKET.arrays.items():
        if name.endswith("kernel"):
            codes, scale = module.quantize(jnp.asarray(kernel))
            arrays[name] = np.asarray(codes, np.float32) * np.asarray(scale)
            number_of_bytes += codes.nbytes + scale.nbytes
    kernels = sum(kernel.nbytes for name, kernel in POCKET.arrays.items() if name.endswith("kernel"))
    yield Bars(
        "The kernels of the trained model",
        (Bar("all kernels", number_of_bytes, kernels),),
        "bytes",
        f"Your codes and scales need {number_of_bytes / kernels:.0%} of the memory. A model that writes token by token "
        f"reads all kernels for each token, so this part of its time can become up to {kernels / number_of_bytes:.1f} "
        "times shorter."
        if number_of_bytes < kernels / 2
        else f"Your codes and scales need {number_of_bytes / kernels:.0%} of the memory: a code is larger than one "
        "byte.",
        names=("your codes", "float32"),
    )
    (ids_T,) = held_out(1)
    small = gpt(weights=replace(POCKET, arrays=arrays))
    graph = nnx.graphdef(small)
    score = jax.jit(lambda state: -jnp.mean(target_log_probabilities(nnx.merge(graph, state), ids_T[None])))
    losses = [float(score(nnx.state(model))) for model in (small, gpt())]
    yield Bars(
        "The loss of a story that the model has never seen",
        (Bar("a new story", *losses),),
        "nats per token",
        changed(losses[0] - losses[1]),
        names=("your codes", "float32"),
    )
    x_TD = into_attention(encode(STORY), LAYER)
    kernel_DF = jnp.asarray(POCKET.arrays[f"blocks.{LAYER}.attn.q_proj.kernel"])
    codes, scale = module.quantize(kernel_DF)
    error_TF = jnp.abs(module.int8_matmul(x_TD, codes, scale) - x_TD @ kernel_DF)
    bound_TF = module.error_bound(x_TD, codes, scale)
    tokens = np.arange(len(x_TD))
    yield Lines(
        "The queries of a text by your integer product: how wrong they can be, and are",
        (
            Line("your bound", tokens, bound_TF.max(axis=1)),
            Line("largest error", tokens, error_TF.max(axis=1)),
            Line("size of a query", tokens, jnp.sqrt(jnp.mean(jnp.square(x_TD @ kernel_DF), axis=1))),
        ),
        "The bound assumes that all roundings go the same way. They do not, so the error stays far below it."
        if bool((error_TF <= bound_TF).all())
        else "An error is above your bound, so it is not one.",
        x="token",
        y="number",
        log=True,
    )
    told = telling.tell(small, 45, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the trained model, with your codes for kernels",
        telling.judged(told, "It is a story, although the kernels are integers now."),
    )


def changed(more: float) -> str:
    """A caption for a loss that has changed by `more` nats."""
    if abs(more) < SMALL:
        return (
            f"They differ by less than {SMALL} nats: a kernel has many numbers, and their roundings mostly cancel "
            f"each other."
        )
    if abs(more) < LARGE:
        return f"It changes by {more:+.3f} nats, more than codes with a scale for each column would change it."
    return f"It changes by {more:+.2f} nats: your codes and scales do not stand for the kernels."
