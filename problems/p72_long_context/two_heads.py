"""A model of two heads that finds what followed a key, in a text of T tokens. Runs in workers and in the play.

The first head attends to the token before. So each position knows which key came just before it. The second head looks
for that key from the end of the text. Both heads have trained queries, and keys of one direction.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def weights_on_answers(
    rotated: Callable[[Any, Any], Any], previous_K: Any, matching_K: Any, places_Q: Any, T: int
) -> jax.Array:
    """Returns, for each of Q keys at `places_Q`, the weight (Q,) that the last position has on the token after it.

    `rotated` rotates vectors (T, H, K) at positions (T,).
    """
    K = len(previous_K)
    positions_T = jnp.arange(T, dtype=jnp.int32)
    one_K = jnp.concatenate([jnp.ones(K // 2), jnp.zeros(K // 2)])
    q_TK = rotated(jnp.broadcast_to(previous_K, (T, 1, K)), positions_T)[:, 0]
    k_TK = rotated(jnp.broadcast_to(one_K, (T, 1, K)), positions_T)[:, 0]
    scores_TT = jnp.where(jnp.tri(T, dtype=bool), q_TK @ k_TK.T, -jnp.inf)
    is_key_TQ = positions_T[:, None] == places_Q
    before_TQ = jax.nn.softmax(scores_TT, axis=-1) @ is_key_TQ.astype(jnp.float32)
    k_TQK = rotated(before_TQ[:, :, None] * one_K, positions_T)
    q_QK = rotated(jnp.broadcast_to(matching_K, (1, len(places_Q), K)), positions_T[-1:])[0]
    weights_QT = jax.nn.softmax(jnp.einsum("qk,tqk->qt", q_QK, k_TQK), axis=-1)
    return jnp.take_along_axis(weights_QT, places_Q[:, None] + 1, axis=1)[:, 0]
