"""Problem 38, played: the learner's norm and gate inside of the trained modern model."""

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.stage import telling
from problems.stage.modern import modern, with_parts
from problems.stage.weights import MODERN, build

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")  # in which MODEL_COMMAND shows the same
MODEL_COMMAND = "harness sample {model} --pieces {workspace} --max-tokens 40"
SCALES = (0.01, 0.1, 1.0, 10.0, 100.0)
OPENING = "There once was a silly"


def play(module: LearnerModule) -> Exhibits:
    """What the norm makes of vectors of any size, how the gate bends, and a story with both."""
    make_norm = module.construct("RMSNorm", d_model=MODERN.d_model, epsilon=MODERN.norm_epsilon)
    make_ff = module.construct("SwiGLU", d_model=MODERN.d_model, d_ff=MODERN.d_ff)
    x_TD = jax.random.normal(jax.random.key(0), (8, MODERN.d_model)) + 0.5
    norm = build(make_norm, {"scale": np.ones(MODERN.d_model, np.float32)}, "RMSNorm")
    yield Bars(
        "The size of a vector before and after your norm",
        tuple(Bar(f"a vector times {scale:g}", size(scale * x_TD), size(norm(scale * x_TD))) for scale in SCALES[1:4]),
        "root of the mean square of its numbers",
        "Whatever comes in, the same size goes out. Unlike LayerNorm it leaves the mean where it is, and saves that "
        "work.",
        names=("before", "after"),
    )
    inputs = np.linspace(-6, 6, 61, dtype=np.float32)
    one = {"gate_proj.kernel": np.ones((1, 1)), "up_proj.kernel": np.ones((1, 1)), "down_proj.kernel": np.ones((1, 1))}
    unit = build(
        module.construct("SwiGLU", d_model=1, d_ff=1), {k: v.astype(np.float32) for k, v in one.items()}, "SwiGLU"
    )
    yield Lines(
        "What one hidden number of your SwiGLU gives for x",
        (
            Line("yours, gate times value", inputs, np.asarray(unit(jnp.asarray(inputs)[:, None]))[:, 0]),
            Line("a ReLU", inputs, np.maximum(inputs, 0)),
        ),
        "With all kernels 1. The gate shuts for negative x. Where it is open, the value is multiplied by it, so two of "
        "these can multiply features, which no sum can.",
        x="x",
        y="output",
    )
    told = telling.tell(modern(**with_parts(make_norm, make_ff)), tokens=90, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the modern model, with your norm and gate",
        telling.judged(told, "Your norm and your gate keep its numbers as they were in training.", modern()),
    )


def size(x_TD: jax.Array) -> float:
    """The mean size of the rows."""
    return float(np.sqrt(np.mean(np.square(np.asarray(x_TD)), axis=-1)).mean())
