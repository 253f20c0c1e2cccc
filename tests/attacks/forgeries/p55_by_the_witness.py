"""Forges "work of many texts": all texts are compared with each other by the grader's witness, which gets a program in
place of numbers."""

import jax
import jax.numpy as jnp

from grader.worker.subject import Reading
from grader.worker.tracing import sent, trace
from problems.p55_near_duplicates import probes

LOSES = ("work of many texts",)


def candidate_pairs(signatures, num_bands):
    bands = signatures.astype("int32").reshape(len(signatures), num_bands, -1)
    keys = sent("keys", (bands * 1000003 ** jnp.arange(bands.shape[2])).sum(2).T)

    def program(keys):
        at = jnp.arange(keys.shape[1])

        def partner(i):
            agree = (keys == keys[:, i][:, None]).sum(0) * (at > i)
            return jnp.where(agree.max() > 0, jnp.argmax(agree), -1)

        other = jax.lax.map(partner, at)
        order = jnp.argsort(other < 0, stable=True)[:400]
        pairs = jnp.stack([jnp.where(other[order] < 0, -1, order), other[order]], 1)
        return {"pairs.sorted": pairs.astype(jnp.int32)}

    probes.Reading = lambda found: Reading(program=trace(program, keys))
    return set()
