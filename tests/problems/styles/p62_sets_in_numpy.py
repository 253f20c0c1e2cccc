"""Masks by rank for the codes; everything about counts and dead features in NumPy, which cannot be traced."""

import jax.numpy as jnp
import numpy as np


def autoencode(x, encoder, decoder, bias, k):
    scores = jnp.einsum("nd,df->nf", x - bias[None], encoder)
    f = jnp.arange(scores.shape[1])
    before = (scores[:, None] > scores[:, :, None]) | ((scores[:, None] == scores[:, :, None]) & (f[None] < f[:, None]))
    codes = jnp.where((before.sum(2) < k) & (scores > 0), scores, 0.0)
    return jnp.einsum("nf,fd->nd", codes, decoder) + bias, codes


def unit_rows(decoder):
    return jnp.nan_to_num(decoder / jnp.sqrt((decoder**2).sum(1))[:, None])


def project_gradient(decoder, gradient):
    return gradient - jnp.einsum("fd,fd,fe->fe", gradient, decoder, decoder)


def idle_tokens(idle, codes):
    new = np.array(idle) + len(codes)
    new[np.asarray(codes).any(axis=0)] = 0
    return new


def revive(encoder, decoder, idle, errors, patience):
    encoder, decoder, idle, errors = (np.array(each) for each in (encoder, decoder, idle, errors))
    dead = np.flatnonzero(idle >= patience)
    living = np.delete(np.arange(len(idle)), dead)
    size = 0.2 * np.mean([np.linalg.norm(encoder[:, f]) for f in living])
    worst = sorted(range(len(errors)), key=lambda n: -np.linalg.norm(errors[n]))
    for f, n in zip(dead, worst, strict=False):
        decoder[f] = errors[n] / np.linalg.norm(errors[n])
        encoder[:, f] = np.float32(size) * decoder[f]
        idle[f] = 0
    return encoder, decoder, idle
