"""What plays say of wrong numbers: the mistake that is there, and no other."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from grader.report.exhibits_terminal import render
from problems.stage import attention, telling
from problems.stage.weights import POCKET

pytestmark = pytest.mark.fast


class Lost(nnx.Module):
    """A model whose logits are not numbers."""

    def __call__(self, token_ids):
        return jnp.full((len(token_ids), POCKET.vocab_size), jnp.nan)


def test_a_story_ends_where_no_token_can_be_chosen():
    told = telling.tell(Lost(), tokens=5)
    assert (len(told.ids), told.broke_off) == (told.given, True)
    assert telling.judged(told, "It makes sense.").startswith("The story ends here")
    assert "▸" not in render(telling.story(told, "A story"))


def test_attention_is_called_too_even_only_if_it_looks_where_the_model_looks(monkeypatch):
    ids_T = attention.few("Lily had a red ball. Tom wanted the ball")
    weights_HTT = np.tril(np.random.default_rng(0).random((4, len(ids_T), len(ids_T))) ** 4)
    right_HTT = weights_HTT / weights_HTT.sum(-1, keepdims=True)
    monkeypatch.setattr(attention, "by_function", lambda *_: right_HTT)
    even_HTT = right_HTT**0.5 / (right_HTT**0.5).sum(-1, keepdims=True)  # half of each score
    assert "make attention too even" in attention.exhibit(even_HTT, ids_T, 2, "Heads").caption
    first_HTT = np.zeros_like(right_HTT)
    first_HTT[..., 0] = 1  # as sharp as can be, on the wrong token
    said = attention.exhibit(first_HTT, ids_T, 2, "Heads").caption
    assert "it takes from other tokens" in said
    assert "too sharp" not in said
