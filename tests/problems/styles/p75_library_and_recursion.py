"""Library functions for attention and loss, blocks without state of their own, and a text that is written by
recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from p37_rope import rope
from p38_rms_norm_swiglu import RMSNorm, SwiGLU


class Heads(nnx.Module):
    def __init__(self, d, h, g, base, *, rngs):
        self.shape, self.base = (-1, d // h), base
        make = lambda inner, outer: nnx.Linear(inner, outer, use_bias=False, rngs=rngs)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            make(d, d), make(d, d // h * g), make(d, d // h * g), make(d, d)
        )  # fmt: skip

    def __call__(self, x):
        parts = (proj(x).reshape(len(x), *self.shape) for proj in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = parts
        places = jnp.arange(len(x))
        mixed = jax.nn.dot_product_attention(rope(q, places, self.base), rope(k, places, self.base), v, is_causal=True)
        return self.out_proj(mixed.reshape(x.shape))


def residual_block(d, h, g, f, base, eps, rngs):
    return nnx.Dict(
        norm1=RMSNorm(d, eps, rngs=rngs), attn=Heads(d, h, g, base, rngs=rngs),
        norm2=RMSNorm(d, eps, rngs=rngs), ff=SwiGLU(d, f, rngs=rngs),
    )  # fmt: skip


def through(block, x):
    for norm, branch in ((block.norm1, block.attn), (block.norm2, block.ff)):
        x = x + branch(norm(x))
    return x


class MultiTokenGPT(nnx.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, d_ff, num_layers, rope_base, norm_epsilon, mtp_after_norm,
        rngs,
    ):  # fmt: skip
        sizes = d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon, rngs
        norms = {name: RMSNorm(d_model, norm_epsilon, rngs=rngs) for name in ("enorm", "hnorm", "norm")}
        linear = nnx.Linear(2 * d_model, d_model, use_bias=False, rngs=rngs)
        self.mtp = nnx.Dict(**norms, eh_proj=linear, block=residual_block(*sizes))
        self.norm_f = RMSNorm(d_model, norm_epsilon, rngs=rngs)
        self.blocks = nnx.List(residual_block(*sizes) for _ in range(num_layers))
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.after = mtp_after_norm

    def run(self, token_ids):
        x = self.embed(token_ids)
        for block in self.blocks:
            x = through(block, x)
        return self.norm_f(x) @ self.embed.embedding[...].T, self.norm_f(x) if self.after else x

    def ahead(self, hidden, next_ids):
        mtp = self.mtp
        x = mtp.eh_proj(jnp.hstack((mtp.enorm(self.embed(next_ids)), mtp.hnorm(hidden))))
        return jnp.einsum("td,vd->tv", mtp.norm(through(mtp.block, x)), self.embed.embedding[...])

    def __call__(self, token_ids):
        before, after = token_ids[:-1], token_ids[1:]
        logits, hidden = self.run(jnp.append(before, after[-1]))
        return logits, self.ahead(hidden[: len(before)], after)


def mtp_loss(logits, ahead, token_ids, is_target, weight):
    one, two = (
        optax.losses.softmax_cross_entropy_with_integer_labels(rows[: len(token_ids) - by], token_ids[by:])
        for by, rows in ((1, logits), (2, ahead))
    )
    first, second = is_target[1:], is_target[2:]
    return jnp.vdot(one, first) / jnp.maximum(first.sum(), 1) + weight * (
        jnp.vdot(two, second) / jnp.maximum(second.sum(), 1)
    )


def write(model, prompt, count, uniforms):
    def law(logits):
        return np.asarray(jnp.exp(logits - jax.scipy.special.logsumexp(logits)), float)

    def sample(weights, u):
        weights = np.maximum(weights, 0)
        edges = np.cumsum(weights) / weights.sum()
        return min(int(np.searchsorted(edges, u, side="right")), int(np.flatnonzero(weights).max()))

    def rest(text, states, number):
        if len(text) >= len(prompt) + count:
            return text
        to_draft, to_accept, to_end = map(float, uniforms[number])
        q = law(model.ahead(states[: len(text) - 1], np.asarray(text[1:]))[-1])
        guess = sample(q, to_draft)
        logits, states = model.run(np.asarray([*text, guess]))
        p, following = law(logits[-2]), law(logits[-1])
        new = [guess, sample(following, to_end)] if to_accept < p[guess] / q[guess] else [sample(p - q, to_end)]
        return rest(text + new, states, number + 1)

    logits, states = model.run(np.asarray(prompt))
    return rest([*prompt, sample(law(logits[-1]), float(uniforms[0, 2]))], states, 1)[len(prompt) :][:count]
