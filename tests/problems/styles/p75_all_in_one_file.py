"""Everything in one file, in plain loops and products: a rotation of complex numbers, the table as the head, the loss
target by target, and the rule of problem 52 written out for one draft."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


class RMSNorm(nnx.Module):
    def __init__(self, width, eps):
        self.scale, self.eps = nnx.Param(jnp.ones(width)), eps

    def __call__(self, x):
        return self.scale[...] * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + self.eps)


class Attention(nnx.Module):
    def __init__(self, width, heads, groups, base, rngs):
        self.heads, self.groups, self.k, self.base = heads, groups, width // heads, base
        for name, out in (("q_proj", width), ("k_proj", groups * self.k), ("v_proj", groups * self.k)):
            setattr(self, name, nnx.Linear(width, out, use_bias=False, rngs=rngs))
        self.out_proj = nnx.Linear(width, width, use_bias=False, rngs=rngs)

    def turned(self, x):
        angles = jnp.arange(len(x))[:, None] * self.base ** (-jnp.arange(0, self.k, 2) / self.k)
        z = jax.lax.complex(*jnp.split(x, 2, -1)) * jnp.exp(1j * angles)
        return jnp.concatenate([z.real, z.imag], -1)

    def __call__(self, x):
        t, out = len(x), []
        later = jnp.arange(t) > jnp.arange(t)[:, None]
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        for head in range(self.heads):
            group = head // (self.heads // self.groups)
            mine, theirs = (slice(n * self.k, (n + 1) * self.k) for n in (head, group))
            scores = self.turned(q[:, mine]) @ self.turned(k[:, theirs]).T / self.k**0.5
            out.append(jax.nn.softmax(jnp.where(later, -jnp.inf, scores)) @ v[:, theirs])
        return self.out_proj(jnp.concatenate(out, axis=1))


class FeedForward(nnx.Module):
    def __init__(self, width, inner, rngs):
        self.gate_proj = nnx.Linear(width, inner, use_bias=False, rngs=rngs)
        self.up_proj = nnx.Linear(width, inner, use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(inner, width, use_bias=False, rngs=rngs)

    def __call__(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * jax.nn.sigmoid(gate) * self.up_proj(x))


class Layer(nnx.Module):
    def __init__(self, width, heads, groups, inner, base, eps, rngs):
        self.norm1, self.norm2 = RMSNorm(width, eps), RMSNorm(width, eps)
        self.attn, self.ff = Attention(width, heads, groups, base, rngs), FeedForward(width, inner, rngs)

    def __call__(self, x):
        x += self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Second(nnx.Module):
    def __init__(self, width, eps, block, rngs):
        self.enorm, self.hnorm, self.norm = (RMSNorm(width, eps) for _ in range(3))
        self.eh_proj, self.block = nnx.Linear(2 * width, width, use_bias=False, rngs=rngs), block


class MultiTokenGPT(nnx.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, d_ff, num_layers, rope_base, norm_epsilon, mtp_after_norm,
        rngs,
    ):  # fmt: skip
        shape = d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon, rngs
        self.mtp = Second(d_model, norm_epsilon, Layer(*shape), rngs)
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.blocks = nnx.List([Layer(*shape) for _ in range(num_layers)])
        self.norm_f, self.after = RMSNorm(d_model, norm_epsilon), mtp_after_norm

    def run(self, token_ids):
        table = self.embed.embedding[...]
        x = table[token_ids]
        for block in self.blocks:
            x = block(x)
        if self.after:
            x = self.norm_f(x)
            return x @ table.T, x
        return self.norm_f(x) @ table.T, x

    def ahead(self, hidden, next_ids):
        table, mtp = self.embed.embedding[...], self.mtp
        of_token, of_state = jnp.split(mtp.eh_proj.kernel[...], 2)
        x = mtp.enorm(table[next_ids]) @ of_token + mtp.hnorm(hidden) @ of_state
        return mtp.norm(mtp.block(x)) @ table.T

    def __call__(self, token_ids):
        logits, hidden = self.run(token_ids)
        return logits, self.ahead(hidden[:-1], token_ids[1:])


def mtp_loss(logits, ahead, token_ids, is_target, weight):
    total = 0.0
    for rows, distance, factor in ((logits, 1, 1.0), (ahead, 2, weight)):
        kept, number = 0.0, 0
        for s in range(distance, len(token_ids)):
            loss = jax.nn.logsumexp(rows[s - distance]) - rows[s - distance, token_ids[s]]
            kept, number = kept + jnp.where(is_target[s], loss, 0.0), number + is_target[s]
        total += factor * kept / jnp.where(number == 0, 1, number)
    return total


def odds(logits):
    e = np.exp(np.asarray(logits, float) - np.max(logits))
    return e / e.sum()


def pick(p, u):
    return next((i for i, total in enumerate(np.cumsum(p)) if total > u and p[i] > 0), int(np.flatnonzero(p)[-1]))


def write(model, prompt, count, uniforms):
    logits, states = model.run(np.array(prompt))
    out = [pick(odds(logits[-1]), uniforms[0][2])]
    for for_draft, for_verdict, for_last in uniforms[1:]:
        if len(out) >= count:
            break
        text = np.array([*prompt, *out])
        q = odds(model.ahead(states[: len(text) - 1], text[1:])[-1])
        draft = pick(q, for_draft)
        logits, states = model.run(np.append(text, draft))
        p, after = odds(logits[-2]), odds(logits[-1])
        if for_verdict * q[draft] < p[draft]:
            out += [draft, pick(after, for_last)]
        else:
            rest = np.clip(p - q, 0, None)
            out.append(pick(rest / rest.sum(), for_last))
    return out[:count]
