"""Stories that a model tells, and what it would have said instead, as exhibits."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import BadOutputError, described
from grader.exhibits import Story, Token
from harness.model.sampling import Sampling, choose_token, sample_key
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, POCKET, PROMPT, encode, token

LIKELIEST = 4  # tokens that are named in place of each
SURPRISE = "bits of surprise"
SAME = 1e-3  # a difference of probabilities that rounding does not explain
SENSE = 1.5  # bits of surprise a token, below which a text is a story to the trained model
BROKE_OFF = "The story ends here: the probabilities of the next token are not numbers, so none can be chosen."
DEFAULT = Sampling(temperature=0.7, top_p=0.95)


@dataclass(frozen=True)
class Told:
    """The tokens of a story, those of its prompt included, and for each after the prompt its probability and the
    likeliest. One that `broke_off` ends where no probability was a number."""

    ids: np.ndarray
    given: int
    probabilities: np.ndarray
    best: np.ndarray
    best_ids: np.ndarray
    broke_off: bool = False


def tell(
    model: nnx.Module, tokens: int = 90, sampling: Sampling = DEFAULT, prompt: str = PROMPT, most: int | None = None
) -> Told:
    """A story by a model of one story, (T,) ids -> (T, V) logits: the one that `harness sample` tells with these
    settings.

    Runs the whole window again for each token, padded at its end. The program is compiled for `tokens` tokens, of which
    it tells at most `most`. Raises BadOutputError if the model returns something other than logits.
    """
    ids = encode(prompt)
    given, T = len(ids), len(ids) + tokens
    window_T = np.zeros(T, np.int32)
    window_T[:given] = ids
    graph, state = nnx.split(model)
    check_logits(jax.eval_shape(lambda state, ids: nnx.merge(graph, state)(ids), state, jnp.asarray(window_T)), T)
    told, length, found = _program(graph, given, sampling)(state, jnp.asarray(window_T), given + (most or tokens))
    lost = np.flatnonzero(~np.isfinite(np.asarray(found[0])[given : int(length)]))
    kept = given + int(lost[0]) if len(lost) else int(length)
    shares, best, best_ids = (np.asarray(each)[given:kept] for each in found)
    return Told(np.asarray(told)[:kept], given, shares, best, best_ids, broke_off=len(lost) > 0)


@functools.lru_cache(maxsize=4)
def _program(graph: Any, given: int, sampling: Sampling) -> Any:
    """A jitted function of a model's state, a window and the longest story: the window filled with a story, the length
    of the story, and what was found for each position: the probability of its token, and the likeliest ones."""
    key = sample_key(sampling.seed, 0)

    @jax.jit
    def run(state: Any, window_T: jax.Array, last: jax.Array) -> Any:
        T = len(window_T)

        def more(carry: Any) -> jax.Array:
            window_T, place, _ = carry
            return (place < last) & ((window_T[place - 1] != END) | (place == given))

        def one(carry: Any) -> Any:
            window_T, place, (shares, best, best_ids) = carry
            logits_V = nnx.merge(graph, state)(window_T)[place - 1]
            chosen = choose_token(logits_V, jax.random.fold_in(key, place - given), sampling).astype(jnp.int32)
            odds_V = jax.nn.softmax(logits_V.astype(jnp.float32))
            likeliest, their_ids = jax.lax.top_k(odds_V, LIKELIEST)
            found = (
                shares.at[place].set(odds_V[chosen]),
                best.at[place].set(likeliest),
                best_ids.at[place].set(their_ids),
            )
            return window_T.at[place].set(chosen), place + 1, found

        nothing = (jnp.zeros(T), jnp.zeros((T, LIKELIEST)), jnp.zeros((T, LIKELIEST), jnp.int32))
        return jax.lax.while_loop(more, one, (window_T, jnp.int32(given), nothing))

    return run


def check_logits(logits: Any, T: int) -> None:
    """Raises BadOutputError if a model did not return logits (T, V)."""
    if getattr(logits, "shape", None) != (T, POCKET.vocab_size):
        raise BadOutputError(
            f"the model returned {described(logits)} for {T} tokens; it must return logits ({T}, {POCKET.vocab_size})"
        )


def surprise(probability: float) -> float:
    """The surprise of an event, in bits."""
    return float(-np.log2(max(float(probability), 1e-9)))


def story(told: Told, title: str, caption: str = "", *, babble: bool = False) -> Story:
    """A told story, in which each token is shaded by how much it surprised the model that wrote it.

    What else a model could have said is left out of a `babble`: by random weights, anything. Of a story that broke off,
    only that is said.
    """
    tokens = [Token(token(each)) for each in told.ids[: told.given]]
    for index, each in enumerate(told.ids[told.given :]):
        others = () if babble else likeliest(told.best[index], told.best_ids[index])
        tokens.append(Token(token(each), surprise(told.probabilities[index]), None, others))
    caption = BROKE_OFF if told.broke_off else caption
    return Story(title, tuple(tokens), caption, given=told.given, meaning=SURPRISE)


def likeliest(probabilities: Sequence[float], ids: Sequence[int]) -> tuple[tuple[str, float], ...]:
    """The likeliest tokens by their text."""
    return tuple((token(each), float(share)) for share, each in zip(probabilities, ids, strict=True))


def judged(told: Told, sense: str, right: nnx.Module | None = None) -> str:
    """A caption for a story that the trained model tells with a learner's part: whether it makes sense to the model as
    it was trained, which a piece that is wrong cannot talk into it. `sense` is the sentence of this play for a story
    that does. `right` is the model that a right part makes, if that is known."""
    if told.broke_off:
        return BROKE_OFF
    bits = surprise_of(gpt(), told.ids, told.given)
    said = f"The trained model is surprised by {bits:.1f} bits a token; a coin toss surprises by 1."
    apart = np.abs(told.probabilities - probabilities(right, told.ids)[told.given - 1 :]).max() if right else 0.0
    if bits < SENSE and apart > SAME:
        return (
            f"{said} So the mistake in your code hardly shows in this text. But it is there: the probability of one "
            f"token is {100 * apart:.1f} points away from that of a right file."
        )
    if bits < SENSE:
        return f"{said} {sense}"
    return (
        f"{said} A right story costs it less. Your code hands on other numbers than those that the weights were "
        "trained with, so the words make no story."
    )


def surprise_of(model: nnx.Module, ids_T: np.ndarray, given: int = 1) -> float:
    """The mean surprise, in bits, of a model at the tokens of a text after the first `given`."""
    shares = probabilities(model, ids_T)[given - 1 :]
    return float(np.mean([surprise(share) for share in shares])) if len(shares) else 0.0


def surprises_of(models: Sequence[nnx.Module], ids_T: np.ndarray) -> list[float]:
    """The mean surprise of each of some models that differ in their parameters only. Compiles one program."""
    graph, _ = nnx.split(models[0])
    run = jax.jit(lambda state, ids: jax.nn.softmax(nnx.merge(graph, state)(ids), axis=-1))
    each_TV = [np.asarray(run(nnx.state(model), jnp.asarray(ids_T)))[:-1] for model in models]
    shares = [np.take_along_axis(odds_TV, ids_T[1:, None], axis=1) for odds_TV in each_TV]
    return [float(np.mean([surprise(share) for share in each.ravel()])) for each in shares]


def probabilities(model: nnx.Module, ids_T: np.ndarray) -> np.ndarray:
    """What a model gives to each token of a text but the first, (T-1,)."""
    odds_TV = jax.nn.softmax(jitted(model)(jnp.asarray(ids_T)), axis=-1)[:-1]
    return np.take_along_axis(np.asarray(odds_TV), ids_T[1:, None], axis=1)[:, 0]


def text(told: Told) -> str:
    """The text of a story without its prompt."""
    return "".join(token(each) for each in told.ids[told.given :] if each != END)
