"""All arrays keep T rows: tokens and masks are rolled, and what came round is masked, as in programs for a mesh."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from p38_rms_norm_swiglu import RMSNorm, SwiGLU
from p39_grouped_query_attention import GQA
from p52_speculative_decoding import speculative_step


class Layer(nnx.Module):
    def __init__(self, sizes, rngs):
        width, heads, groups, inner, base, eps = sizes
        self.attn, self.ff = GQA(width, heads, groups, base, rngs=rngs), SwiGLU(width, inner, rngs=rngs)
        self.norm1, self.norm2 = RMSNorm(width, eps, rngs=rngs), RMSNorm(width, eps, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.norm1(x), jnp.tri(len(x), dtype=bool))
        return x + self.ff(self.norm2(x))


class Ahead(nnx.Module):
    def __init__(self, sizes, rngs):
        width, *_, eps = sizes
        self.block = Layer(sizes, rngs)
        self.eh_proj = nnx.Linear(2 * width, width, use_bias=False, rngs=rngs)
        for name in ("hnorm", "enorm", "norm"):
            setattr(self, name, RMSNorm(width, eps, rngs=rngs))

    def __call__(self, states, embedded):
        pair = jnp.stack([self.enorm(embedded), self.hnorm(states)], axis=1)
        return self.norm(self.block(self.eh_proj(pair.reshape(len(states), -1))))


class MultiTokenGPT(nnx.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, d_ff, num_layers, rope_base, norm_epsilon, mtp_after_norm,
        rngs,
    ):  # fmt: skip
        sizes = d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon
        self.embed, self.norm_f = nnx.Embed(vocab_size, d_model, rngs=rngs), RMSNorm(d_model, norm_epsilon, rngs=rngs)
        self.blocks = nnx.List([Layer(sizes, rngs) for _ in range(num_layers)])
        self.mtp, self.state = Ahead(sizes, rngs), int(mtp_after_norm)

    def run(self, token_ids):
        stream = [self.embed(token_ids)]
        for block in self.blocks:
            stream.append(block(stream[-1]))
        stream.append(self.norm_f(stream[-1]))
        return self.embed.attend(stream[-1]), stream[-2 + self.state]

    def ahead(self, hidden, next_ids):
        return self.embed.attend(self.mtp(hidden, self.embed(next_ids)))

    def __call__(self, token_ids):
        logits, hidden = self.run(token_ids)
        return logits, self.ahead(hidden, jnp.roll(token_ids, -1))[:-1]


def mtp_loss(logits, ahead, token_ids, is_target, weight):
    ids, counts, means = token_ids, is_target.astype(jnp.float32), []
    for rows in (logits, jnp.pad(ahead, ((0, 1), (0, 0)))):
        ids, counts = jnp.roll(ids, -1), jnp.roll(counts, -1).at[-1].set(0)
        losses = optax.softmax_cross_entropy(rows, jnp.eye(rows.shape[1])[ids])
        means.append(losses @ counts / jnp.clip(counts.sum(), 1))
    return jnp.array([1, weight]) @ jnp.array(means)


def write(model, prompt, count, uniforms):
    def softmax(rows):
        e = np.exp(rows - rows.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).astype("float32")

    def drawn(p, u):
        # A draft that is surely accepted, and then a draw from the last row.
        return int(speculative_step(np.stack([p, p]), p[None], p.argmax(keepdims=True), np.array([0, u]))[0][1])

    text, numbers = [*prompt], iter(uniforms)
    rows, states = model.run(np.array(text))
    text += [drawn(softmax(rows[-1]), next(numbers)[2])]
    while len(text) - len(prompt) < count:
        u, *others = next(numbers)
        q = softmax(model.ahead(states[: len(text) - 1], np.array(text)[1:])[-1])
        text.append(drawn(q, u))
        rows, states = model.run(np.array(text))
        emitted, number = speculative_step(softmax(rows[-2:]), q[None], np.array(text[-1:]), np.array(others))
        text[-1:] = np.asarray(emitted)[: int(number)].tolist()
    return text[len(prompt) :][:count]
