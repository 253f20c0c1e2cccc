"""Continuations of prompts by the model that is being trained, with their rewards, as batches of the train step."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Int

from harness.config import Config
from harness.data.batches import PADDING
from harness.data.token_files import Tokens
from harness.model.sampling import Sampling
from harness.pieces.load import attribute_errors_to
from harness.run.rewards import Reward
from harness.run.session import Session
from harness.training.grpo import Rollouts, advantages, kl_estimate, scorer
from harness.training.sharding import put_batch
from harness.training.train_step import Batch

RARE = 0.05  # the share of rewarded continuations below which training seldom finds any to learn from


class RolloutFeed:
    """Batches of `prompts` groups of `group_size` continuations. The prompts are beginnings of stories of the training data.

    Everything that is random depends on the seed and the number of the update.
    """

    def __init__(self, session: Session, base: Any, reward: Reward):
        self._session, self._reward = session, reward
        self._config: Config = session.config
        self._tokenizer = session.tokenizer
        self._base = nnx.state(base)
        self._update = 0

    def get_state(self) -> dict[str, Any]:
        """The number of updates."""
        return {"update": self._update}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues after the updates that led to `state`."""
        self._update = int(state["update"])

    def next(self, state: Any) -> Batch:
        """Samples continuations from the model of `state`, and rewards them."""
        config, session = self._config, self._session
        model = session.functions.model(state)
        prompts_GP = draw_prompts(config, session.prepared.train, self._update)
        ids_BP = np.repeat(prompts_GP, config.group_size, axis=0)
        # Sampled from the model's own distribution: otherwise, the policy that is trained would be another one.
        sampling = Sampling(
            temperature=1.0, top_p=1.0, seed=config.seed, max_tokens=config.context + 1 - config.prompt_tokens
        )
        continuations = [*session.samples(model, ids_BP, sampling, first=self._update * len(ids_BP))]
        rewards_B = np.array([self._rewarded(*pair) for pair in zip(ids_BP.tolist(), continuations, strict=True)])
        if self._update == 0 and rewards_B.mean() < RARE:
            session.log(
                f"{int((rewards_B > 0).sum())} of the first {len(rewards_B)} continuations are rewarded. "
                f"Below {RARE:.0%}, training seldom finds what it could reinforce; try an easier reward."
            )
        rewards_GK = rewards_B.reshape(config.prompts, config.group_size)
        self._update += 1
        return self._batch(model, ids_BP, continuations, rewards_GK)

    def _rewarded(self, prompt: list[int], continuation: list[int]) -> float:
        decode = self._tokenizer.decode
        ended = len(continuation) < self._config.context + 1 - self._config.prompt_tokens
        known = [token for token in continuation if token < self._tokenizer.n_vocab]
        return self._reward(decode(prompt), decode(known), ended)

    def _batch(self, model: Any, ids_BP: np.ndarray, continuations: list[list[int]], rewards_GK: np.ndarray) -> Batch:
        """The rollouts on the devices, with the means that the line of metrics shows."""
        config, session = self._config, self._session
        P, W = config.prompt_tokens, config.context + 1
        ids_BW = np.full((len(ids_BP), W), PADDING, np.int32)
        ids_BW[:, :P] = ids_BP
        for row, tokens in zip(ids_BW, continuations, strict=True):
            written = [*tokens, session.end_of_text][: W - P]  # the end was sampled, too
            row[P : P + len(written)] = written
        sampled_BT = (np.arange(1, W) >= P) & (ids_BW[:, 1:] != PADDING)
        put = functools.partial(put_batch, mesh=session.mesh)
        rows = put(ids_BW)
        graph, policy = nnx.split(model)
        old_BT, base_BT, entropies_BT = attribute_errors_to(
            session.pieces, lambda: scorer(config, graph)(policy, self._base, rows)
        )
        advantages_GK = advantages(rewards_GK)
        sampled, advantages_B = put(sampled_BT), put(advantages_GK.reshape(-1).astype(np.float32))
        kl, entropy = _means(sampled, kl_estimate(old_BT, base_BT), entropies_BT)
        metrics = {
            "reward": float(rewards_GK.mean()),
            "kl": float(kl),
            "entropy": float(entropy),
            "length": float(np.mean([len(tokens) for tokens in continuations])),
            "equal_groups": int((~advantages_GK.any(axis=1)).sum()),
        }
        return Batch(Rollouts(rows, sampled, old_BT, base_BT, advantages_B), int(sampled_BT.sum()), metrics)


@jax.jit
def _means(mask_BT: jax.Array, *values_BT: jax.Array) -> list[jax.Array]:
    """The mean of each array over the positions of the mask."""
    return [jnp.sum(values * mask_BT) / jnp.maximum(jnp.sum(mask_BT), 1) for values in values_BT]


def draw_prompts(config: Config, tokens: Tokens, update: int) -> Int[np.ndarray, "G P"]:
    """The first `prompt_tokens` tokens of as many stories as there are `prompts`, all longer than that."""
    starts = np.concatenate([[0], tokens.ends[:-1]])
    long_enough = np.flatnonzero(tokens.ends - starts > config.prompt_tokens)
    chosen = np.random.default_rng((config.seed, update)).choice(long_enough, config.prompts)
    return np.stack([tokens[int(starts[i]) : int(starts[i]) + config.prompt_tokens] for i in chosen]).astype(np.int32)
