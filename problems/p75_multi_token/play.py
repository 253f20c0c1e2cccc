"""Problem 75, played: a module beside the trained model learns to draft, and writes a story with it."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Progress, Story, Token
from harness.data.pocket import stories
from problems.stage.weights import END, MODERN, PROMPT, build, encode, held_out, scrambled, token

TRAINS = True
T, BATCH, STEPS, GAP, LEARNING_RATE, WEIGHT, STORIES = 64, 8, 320, 20, 1e-2, 0.3, 800
TOKENS, SEEDS, TEMPERATURE = 80, 4, 0.7
KINDS = ("prompt", "drafted and accepted", "drawn after a rejection", "after an accepted draft")
MODULE = ("enorm", "hnorm", "norm")


def play(module: LearnerModule) -> Exhibits:
    """The loss while the module learns, a story that it drafts, and what the wrong hidden state costs."""
    models = {after: model_of(module, after) for after in (False, True)}
    graph, state = nnx.split(models[False])
    mine, frozen = state.filter(lambda path, _: path[0] == "mtp"), state.filter(lambda path, _: path[0] != "mtp")
    tx = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, STEPS))

    def losses(mine: Any, ids_BT: Any, weight: float) -> jax.Array:
        logits, ahead = jax.vmap(nnx.merge(graph, mine, frozen))(ids_BT)
        every = jnp.ones(T, bool)
        return jnp.mean(jax.vmap(lambda *row: module.mtp_loss(*row, every, weight))(logits, ahead, ids_BT))

    @jax.jit
    def step(mine: Any, moments: Any, ids_BT: Any) -> Any:
        updates, moments = tx.update(jax.grad(losses)(mine, ids_BT, WEIGHT), moments, mine)
        return optax.apply_updates(mine, updates), moments

    both = jax.jit(lambda mine, ids_BT: (losses(mine, ids_BT, 0.0), losses(mine, ids_BT, 1.0)))
    rows = np.concatenate([[*encode(text), END] for text in stories(STORIES)])
    rows_NT = rows[: len(rows) // T * T].reshape(-1, T).astype(np.int32)
    held_BT = np.stack([ids[:T] for ids in held_out(2 * BATCH) if len(ids) >= T][:BATCH])
    moments, curve = tx.init(mine), [second_loss(both(mine, held_BT))]
    for number in range(STEPS):
        mine, moments = step(mine, moments, rows_NT[np.arange(number * BATCH, (number + 1) * BATCH) % len(rows_NT)])
        if (number + 1) % GAP == 0:
            curve.append(second_loss(both(mine, held_BT)))
            yield Progress(number + 1, STEPS, curve[-1])
    first = float(both(mine, held_BT)[0])
    yield Lines(
        "The loss of the token after the next, while your module learns beside the trained model",
        (
            Line("your module", np.arange(0, STEPS + 1, GAP), curve),
            Line("the next token, main model", np.arange(0, STEPS + 1, GAP), np.full(len(curve), first)),
        ),
        f"{curve[0]:.1f} nats at first, {curve[-1]:.2f} after {STEPS} steps. It is one block, and the main model has "
        f"{MODERN.num_layers}. The main model is not trained here.",
        y="nats a token",
    )

    trained = {after: Padded(put_module(models[after], mine)) for after in models}
    texts = [trained[False].written(module, seed) for seed in range(SEEDS)]
    rate = per_run(texts)
    yield Story(
        "A story that your module drafts and the trained model checks",
        tuple(story_of(*texts[0])),
        f"{rate:.2f} tokens a run of the model, over {SEEDS} stories."
        + (
            " Without a module it is 1. The words are as likely as without drafts."
            if rate > 1.4
            else " Your module's drafts are hardly ever accepted: which token does each row read, and which one is it "
            "compared with?"
        ),
        given=len(encode(PROMPT)),
        kinds=KINDS,
    )
    other = per_run([trained[True].written(module, seed) for seed in range(SEEDS)])
    yield Bars(
        "Tokens a run",
        (Bar("as it was trained", rate), Bar("state after norm_f", other), Bar("no module", 1.0)),
        "tokens",
        f"The same weights, with `mtp_after_norm` true: {other:.2f} tokens a run, no error, and words as likely as "
        "before. Such a mistake shows nowhere else. For Qwen3.5 it cost a third of the tokens a run."
        if abs(other - rate) > 0.02
        else "The same weights with `mtp_after_norm` true give as many tokens a run. Does your `run` return the state "
        "after `norm_f` then?",
    )


def model_of(module: LearnerModule, after: bool) -> Any:
    """The learner's model with the trained weights. Its module begins with the last block of the main model."""
    make = module.construct(
        "MultiTokenGPT", **MODERN.shape, num_kv_heads=MODERN.num_kv_heads, rope_base=MODERN.rope_base,
        norm_epsilon=MODERN.norm_epsilon, mtp_after_norm=after,
    )  # fmt: skip
    D, last = MODERN.d_model, MODERN.num_layers - 1
    begun = {f"mtp.block.{name}": array for name, array in MODERN.below(f"blocks.{last}.").items()}
    begun |= {f"mtp.{name}.scale": np.ones(D, np.float32) for name in MODULE}
    begun |= scrambled({"mtp.eh_proj.kernel": np.zeros((2 * D, D), np.float32)})
    return build(make, {**MODERN.arrays, **begun}, "MultiTokenGPT")


def put_module(model: Any, mine: Any) -> Any:
    """The model, with these parameters of its module."""
    nnx.update(model, mine)
    return model


def second_loss(losses: Any) -> float:
    """The loss of the second prediction, from the loss with the weight 0 and the one with 1."""
    return float(losses[1] - losses[0])


class Padded:
    """A model as `write` calls it, at a temperature, compiled for one length. It remembers the runs."""

    def __init__(self, model: Any) -> None:
        graph, self._state = nnx.split(model)
        self._run = jax.jit(lambda state, ids: nnx.merge(graph, state).run(ids))
        self._ahead = jax.jit(lambda state, hidden, ids: nnx.merge(graph, state).ahead(hidden, ids))
        self._window = len(encode(PROMPT)) + TOKENS + 2
        self.lengths: list[int] = []

    def run(self, token_ids: Any) -> tuple[np.ndarray, np.ndarray]:
        self.lengths.append(len(token_ids))
        logits, hidden = self._run(self._state, self._filled(np.asarray(token_ids, np.int32)))
        return np.asarray(logits)[: len(token_ids)] / TEMPERATURE, np.asarray(hidden)[: len(token_ids)]

    def ahead(self, hidden: Any, next_ids: Any) -> np.ndarray:
        arrays = self._filled(np.asarray(hidden)), self._filled(np.asarray(next_ids, np.int32))
        return np.asarray(self._ahead(self._state, *arrays))[: len(next_ids)] / TEMPERATURE

    def _filled(self, array: np.ndarray) -> np.ndarray:
        return np.pad(array, [(0, self._window - len(array)), *[(0, 0)] * (array.ndim - 1)])

    def written(self, module: LearnerModule, seed: int) -> tuple[list[int], list[int]]:
        """The tokens of a story, and how many of them there were before each run."""
        self.lengths = []
        uniforms = np.random.default_rng(seed).random((TOKENS, 3)).astype(np.float32)
        prompt = encode(PROMPT).tolist()
        tokens = [int(each) for each in module.write(self, prompt, TOKENS, uniforms)]
        return tokens, [self.lengths[0], *(length - 1 for length in self.lengths[1:])]


def per_run(texts: Sequence[tuple[list[int], list[int]]]) -> float:
    """How many tokens a run gave."""
    return sum(len(tokens) for tokens, _ in texts) / sum(len(before) for _, before in texts)


def story_of(tokens: list[int], before: list[int]) -> list[Token]:
    """The tokens of a story up to its end, each with where it comes from."""
    prompt = encode(PROMPT).tolist()
    told = [Token(token(each), kind=0) for each in prompt]
    runs = np.diff([*before, before[-1] + 2])
    kinds = [kind for number, count in enumerate(runs) for kind in ((1, 3) if count > 1 else (2,)) if number]
    for each, kind in zip(tokens, [2, *kinds], strict=False):
        told.append(Token(token(each), kind=kind))
        if each == END:
            break
    return told
