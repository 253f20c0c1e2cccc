"""Where the trained model's attention goes on a text, by a learner's attention."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import BadOutputError, described
from grader.exhibits import HeatMap, Plane
from harness.model.attention import causal_attention
from problems.stage.model import into_attention, queries_and_keys
from problems.stage.weights import POCKET, build, encode, token

ALIKE = 0.9  # a share of the rows whose largest weight is where the trained model has it
MOST_TOKENS = 14  # of a text; at most the width of a head, and as many as four maps have room for beside each other


def few(text: str) -> np.ndarray:
    """The ids of the first tokens of a text."""
    return encode(text or " ")[:MOST_TOKENS]


def by_function(attend: Callable[..., jax.Array], ids_T: np.ndarray, layer: int) -> np.ndarray:
    """The weights of each head of a layer, (H, T, T), by a function of q, k and v (T, K).

    The values that it gets are the rows of the identity, so that what it returns is the weights. Raises BadOutputError.
    """
    q_HTK, k_HTK = queries_and_keys(ids_T, layer)
    T, K = q_HTK.shape[1:]
    v_TK = jnp.eye(T, K)
    heads = [attend(q_TK, k_TK, v_TK) for q_TK, k_TK in zip(q_HTK, k_HTK, strict=True)]
    for head in heads:
        if getattr(head, "shape", None) != (T, K):
            raise BadOutputError(f"the attention returned {described(head)}; it must return float32({T}, {K})")
    return np.array([np.asarray(head)[:, :T] for head in heads])


def by_module(make: Callable[[], nnx.Module], ids_T: np.ndarray, layer: int, what: str) -> np.ndarray:
    """The weights of each head of a layer, (H, T, T), by a module of x (T, D).

    Its projection of the values is one that turns this very input into the rows of the identity, and its output
    projection changes nothing, so that what it returns is the weights of all heads beside each other. Raises
    BadOutputError.
    """
    x_TD = into_attention(ids_T, layer)
    T, D = x_TD.shape
    H = POCKET.num_heads
    ones_TD = np.tile(np.eye(T, D // H), H)
    kernel = np.linalg.pinv(np.asarray(x_TD, np.float64)) @ ones_TD
    arrays: Mapping[str, np.ndarray] = POCKET.below(f"blocks.{layer}.attn.") | {
        "v_proj.kernel": kernel.astype(np.float32), "v_proj.bias": np.zeros(D, np.float32),
        "out_proj.kernel": np.eye(D, dtype=np.float32), "out_proj.bias": np.zeros(D, np.float32),
    }  # fmt: skip
    out = build(make, arrays, what)(x_TD)
    if getattr(out, "shape", None) != (T, D):
        raise BadOutputError(f"`{what}` returned {described(out)}; it must return float32({T}, {D})")
    return np.moveaxis(np.asarray(out).reshape(T, H, D // H)[:, :, :T], 1, 0)


def exhibit(weights_HTT: np.ndarray, ids_T: np.ndarray, layer: int, title: str) -> HeatMap:
    """The weights of each head, with what they say: whether they reach into the future, sum to 1, and are as sharp as
    the model's own."""
    words = tuple(token(each) for each in ids_T)
    planes = tuple(Plane(head, f"head {number}") for number, head in enumerate(weights_HTT, 1))
    return HeatMap(title, words, words, planes, _said(weights_HTT, ids_T, layer), "attention weight")


def future(weights_HTT: np.ndarray) -> float:
    """The share of the weight that lies on later tokens."""
    return float(np.abs(np.triu(weights_HTT, 1)).sum() / max(np.abs(weights_HTT).sum(), 1e-9))


def _own(q_TK: jax.Array, k_TK: jax.Array, v_TK: jax.Array) -> jax.Array:
    """One head by the harness's attention."""
    q, k, v = (x_TK[None, :, None] for x_TK in (q_TK, k_TK, v_TK))
    return causal_attention(q, k, v)[0, :, 0]


def _said(weights_HTT: np.ndarray, ids_T: np.ndarray, layer: int) -> str:
    sums = weights_HTT.sum(-1)
    if not np.isfinite(weights_HTT).all():
        return "Some weights are not numbers: every token that is computed from them is lost."
    if (ahead := future(weights_HTT)) > 1e-3:
        return (
            f"{ahead:.0%} of the weight lies right of the diagonal, on tokens that come later. In training, the model "
            "would look up the answer there, and its loss would be wonderful. When it writes, there is nothing to look "
            "up yet."
        )
    if np.abs(sums - 1).max() > 0.01:
        return f"The weights of a row sum to {sums.min():.2f} to {sums.max():.2f}. They must sum to 1."
    own = by_function(_own, ids_T, layer)
    mine, expected = (float(each.max(-1).mean()) for each in (weights_HTT, own))
    looks_alike = float((weights_HTT.argmax(-1) == own.argmax(-1)).mean()) > ALIKE  # another scale keeps the order
    if abs(mine - expected) > 0.02 and looks_alike:
        return (
            f"The largest weight of a row is {mine:.2f} on average; in the model as it was trained, {expected:.2f}. "
            f"Scores on another scale make attention too {'sharp' if mine > expected else 'even'}."
        )
    if np.abs(weights_HTT - own).max() > 0.02:
        return "These are not the weights of the model as it was trained: it takes from other tokens than it learned."
    return (
        "Row by row, where a token looks: its weights on itself and on earlier tokens sum to 1. Right of the diagonal "
        "is the future, and it is empty. Each head looks for something else."
    )
