"""Problem 49, played: the learner's ring, turn by turn, on the queries and keys of the trained model."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import mesh_of
from grader.exhibits import Exhibits, HeatMap, LearnerModule, Line, Lines, Plane
from harness.model.attention import causal_attention
from problems.stage import devices
from problems.stage.model import queries_and_keys
from problems.stage.programs import floats, temporary_bytes
from problems.stage.weights import encode, token

STORY = "Lily had a red ball. Tom wanted the ball. He took it and ran to the park. Lily was sad and cried."
DEVICES, T, LAYER, HEAD = 8, 24, 1, 0
LENGTHS = (64, 256, 1024)


def play(module: LearnerModule) -> Exhibits:
    """Whose keys each device holds in each turn, the attention that results, and the memory of a device."""
    mesh = mesh_of(DEVICES, axes=("context",))

    def ring(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        return module.ring_attention(q, k, v, mesh)

    ids_T = encode(STORY)[:T]
    q_TK, k_TK = (x_HTK[HEAD] for x_HTK in queries_and_keys(ids_T, LAYER))
    v_TK = jnp.eye(T, q_TK.shape[1])
    turns = devices.turns(ring, q_TK, k_TK, v_TK)
    yield HeatMap(
        "Whose keys and values each of the devices 0 to 7 holds, turn by turn",
        ("start", *(f"turn {turn}" for turn in range(1, len(turns)))),
        tuple(map(str, range(DEVICES))),
        (
            Plane(
                [[1.0 if of < at else 0.5 if of == at else 0.0 for at, of in enumerate(held)] for held in turns],
                "",
                [[f"of {of}" for of in held] for held in turns],
            ),
        ),
        "A device has its own queries all the time. Dark: it may see all of these keys. Half: its own, which it sees "
        "in part. Light: they come later in the text, so it passes them on without looking.",
        "share of the keys that the device may see",
    )
    weights_TT = np.asarray(ring(q_TK, k_TK, v_TK))[:, :T]
    plain = causal_attention(q_TK[None, :, None], k_TK[None, :, None], v_TK[None, :, None])[0, :, 0, :T]
    apart = float(np.abs(weights_TT - np.asarray(plain)).max())
    labels = tuple(token(each) for each in ids_T)
    yield HeatMap(
        "What the ring computes: a head of the trained model on a text, three rows on each device",
        labels,
        labels,
        (Plane(weights_TT),),
        f"No device ever held more than {T // DEVICES} of the {T} keys and values, and "
        + (
            f"the weights are those of plain attention (largest difference {apart:.0e})."
            if apart < 1e-3
            else f"the weights are not those of plain attention: they differ by up to {apart:.2g}."
        ),
        "weight",
    )
    shapes = [(floats(length, 32),) * 3 for length in LENGTHS]
    batched = [(floats(1, length, 1, 32),) * 3 for length in LENGTHS]
    yield Lines(
        "Memory that a device needs for attention",
        (
            Line("your ring", LENGTHS, [temporary_bytes(ring, *each) for each in shapes]),
            Line("plain, on one device", LENGTHS, [temporary_bytes(causal_attention, *each) for each in batched]),
        ),
        "Twice the text needs four times the scores. On a ring, a device has one block of them at a time.",
        x="tokens",
        y="bytes",
        log=True,
    )
