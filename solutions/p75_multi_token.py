"""Problem 75, reference: multi-token prediction with one module (DeepSeek-AI 2024, section 2.2), and drafting."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int
from p38_rms_norm_swiglu import RMSNorm, SwiGLU
from p39_grouped_query_attention import GQA
from p52_speculative_decoding import speculative_step


class Block(nnx.Module):
    """The pre-norm block of problem 40, without a window."""

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, d_ff: int, rope_base: float, epsilon: float,
        rngs: nnx.Rngs,
    ):  # fmt: skip
        self.norm1 = RMSNorm(d_model, epsilon, rngs=rngs)
        self.attn = GQA(d_model, num_heads, num_kv_heads, rope_base, rngs=rngs)
        self.norm2 = RMSNorm(d_model, epsilon, rngs=rngs)
        self.ff = SwiGLU(d_model, d_ff, rngs=rngs)

    def __call__(self, x_TD: Float[Array, "T D"]) -> Float[Array, "T D"]:
        x_TD = x_TD + self.attn(self.norm1(x_TD))
        return x_TD + self.ff(self.norm2(x_TD))


class MTP(nnx.Module):
    """Row t: the hidden state of position t and the embedding of token t + 1 become the state that predicts t + 2."""

    def __init__(self, d_model: int, epsilon: float, block: Block, rngs: nnx.Rngs):
        self.enorm = RMSNorm(d_model, epsilon, rngs=rngs)
        self.hnorm = RMSNorm(d_model, epsilon, rngs=rngs)
        self.eh_proj = nnx.Linear(2 * d_model, d_model, use_bias=False, rngs=rngs)
        self.block = block
        self.norm = RMSNorm(d_model, epsilon, rngs=rngs)

    def __call__(self, hidden: Float[Array, "T D"], embedded: Float[Array, "T D"]) -> Float[Array, "T D"]:
        both = jnp.concatenate([self.enorm(embedded), self.hnorm(hidden)], axis=-1)
        return self.norm(self.block(self.eh_proj(both)))


class MultiTokenGPT(nnx.Module):
    """A GPT, and a module beside it that predicts one token further with the same embedding and head."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        d_ff: int,
        num_layers: int,
        rope_base: float,
        norm_epsilon: float,
        mtp_after_norm: bool,
        rngs: nnx.Rngs,
    ):
        def block() -> Block:
            return Block(d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon, rngs=rngs)

        self.mtp_after_norm = mtp_after_norm
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.blocks = nnx.List([block() for _ in range(num_layers)])
        self.norm_f = RMSNorm(d_model, norm_epsilon, rngs=rngs)
        self.mtp = MTP(d_model, norm_epsilon, block(), rngs=rngs)

    def run(self, token_ids: Int[Array, "T"]) -> tuple[Float[Array, "T V"], Float[Array, "T D"]]:
        """The logits of the main model, and the hidden states that the module reads."""
        x_TD = self.embed(token_ids)
        for block in self.blocks:
            x_TD = block(x_TD)
        normed_TD = self.norm_f(x_TD)
        return self.embed.attend(normed_TD), normed_TD if self.mtp_after_norm else x_TD

    def ahead(self, hidden: Float[Array, "T D"], next_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """The logits of the token after `next_ids`, which are the tokens after those of `hidden`."""
        return self.embed.attend(self.mtp(hidden, self.embed(next_ids)))

    def __call__(self, token_ids: Int[Array, "T"]) -> tuple[Float[Array, "T V"], Float[Array, "T-1 V"]]:
        logits_TV, hidden_TD = self.run(token_ids)
        return logits_TV, self.ahead(hidden_TD[:-1], token_ids[1:])


def mtp_loss(
    logits: Float[Array, "T V"],
    ahead: Float[Array, "T-1 V"],
    token_ids: Int[Array, "T"],
    is_target: Bool[Array, "T"],
    weight: float,
) -> Float[Array, ""]:
    """The mean loss of the next token, plus `weight` times that of the token after it, in nats."""

    def mean_loss(rows: Float[Array, "N V"], first: int) -> Float[Array, ""]:
        counts = is_target[first:]
        losses = optax.softmax_cross_entropy_with_integer_labels(rows, token_ids[first:])
        return jnp.sum(losses * counts) / jnp.maximum(jnp.sum(counts), 1)

    return mean_loss(logits[:-1], 1) + weight * mean_loss(ahead[:-1], 2)


verify = jax.jit(speculative_step)


def softmax(logits: Float[np.ndarray, "N V"]) -> Float[np.ndarray, "N V"]:
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def draw(distribution: Float[np.ndarray, "V"], uniform: float) -> int:
    """The first possible token whose cumulative sum is greater than `uniform`, or the last one, as in problem 52."""
    reached = (distribution > 0) & (distribution.cumsum() > uniform)
    return int(reached.argmax() if reached.any() else distribution.nonzero()[0][-1])


def write(model: Any, prompt: list[int], count: int, uniforms: Float[np.ndarray, "R 3"]) -> list[int]:
    """`count` tokens after the prompt. Each run of the model after the first verifies one drafted token."""
    text = list(prompt)
    logits, hidden = model.run(np.array(text))
    text.append(draw(softmax(logits[-1]), uniforms[0, 2]))
    run = 1
    while len(text) < len(prompt) + count:
        n = len(text)  # the last token has no hidden state yet
        q = softmax(model.ahead(hidden[: n - 1], np.array(text[1:]))[-1])
        drafted = draw(q, uniforms[run, 0])
        logits, hidden = model.run(np.array([*text, drafted]))
        p = softmax(logits[n - 1 :])
        tokens, emitted = verify(p, q[None], np.array([drafted]), uniforms[run, 1:])
        text += tokens[: int(emitted)].tolist()
        run += 1
    return text[len(prompt) : len(prompt) + count]
