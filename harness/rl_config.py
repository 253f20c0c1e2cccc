"""The settings of learning from preferences and rewards, and of the cache that continuations are sampled with."""

from dataclasses import dataclass
from typing import Literal

from harness.settings import COUNT, NOT_NEGATIVE, Range, Settings, setting


@dataclass(frozen=True)
class RewardConfig(Settings):
    """Reinforcement learning, if there is a reward."""

    reward: str = setting(
        "", "what `harness rl` reinforces: word:WORD, sentences:N, ends, FILE.py:FUNCTION, or task:NAME for a task"
    )
    prompts: int = setting(4, "prompts per update", allowed=COUNT)
    group_size: int = setting(8, "continuations of each prompt", allowed=Range(at_least=2))
    prompt_tokens: int = setting(
        8, "tokens of a story that are its prompt; of a task, the most of a prompt", allowed=COUNT
    )
    system_prompt: str = setting("", "text before each question of a task")
    format_weight: float = setting(
        0.0,
        "what is added to the reward if an answer can be read from the continuation, right or wrong",
        allowed=NOT_NEGATIVE,
    )
    kl_weight: float = setting(
        0.1, "weight of the KL divergence from the base; 0: the base is not needed", allowed=NOT_NEGATIVE
    )
    kl_in: Literal["loss", "reward"] = setting(
        "loss", "where the KL divergence counts: in the loss of each token, or in the reward of a continuation"
    )
    kl_estimate: Literal["k3", "ratio_k3"] = setting(
        "k3", "the estimate in the loss: k3, or k3 times the ratio, whose gradient is that of the KL divergence"
    )
    ratio: Literal["token", "sequence"] = setting(
        "token", "what the ratio of probabilities is of: a token, or a continuation, by its mean over the tokens (GSPO)"
    )
    clip_ratio: float = setting(
        0.2, "how far the ratio of probabilities may be from 1", allowed=Range(above=0, below=1)
    )
    clip_high: float = setting(
        0.0, "how far it may be above 1; 0: as far as below, which is clip_ratio", allowed=NOT_NEGATIVE
    )
    max_weight: float = setting(
        0.0,
        "the most that a token weighs by the gap of sampler and trainer, whose rounding differs; 0: no weights",
        allowed=NOT_NEGATIVE,
    )
    rollout_updates: int = setting(
        1, "updates per batch of continuations, each with its share of the rows", allowed=COUNT
    )
    scale_advantages: bool = setting(
        True, "divide advantages by the deviation of the group; false: very easy and very hard prompts weigh less"
    )
    deviation: Literal["population", "sample"] = setting(
        "population", "the deviation of a group of K rewards: of its K, or as an estimate that divides by K - 1"
    )
    loss_mean: Literal["token", "sequence"] = setting(
        "token", "what has the same weight in the loss: each token, or each continuation"
    )
    max_calls: int = setting(4, "calls of tools that an answer may make, in a task with tools", allowed=NOT_NEGATIVE)
    max_result: int = setting(32, "tokens of the result of a call, after which it is cut", allowed=Range(at_least=10))
    skip_overlong: bool = setting(
        False, "leave out continuations that are cut off: where they would have led is unknown"
    )
    skip_equal: bool = setting(False, "leave out groups of equal rewards, which only hold the model at its base")

    @property
    def has_kl_loss(self) -> bool:
        """Whether the loss has a KL divergence in it."""
        return bool(self.kl_weight) and self.kl_in == "loss"

    @property
    def is_exact_kl(self) -> bool:
        """Whether the gradient of its estimate is that of the KL divergence."""
        return self.kl_estimate == "ratio_k3"

    @property
    def clip_above(self) -> float:
        """How far the ratio may be above 1."""
        return self.clip_high or self.clip_ratio


@dataclass(frozen=True)
class PreferenceConfig(Settings):
    """The loss of pairs of answers, of which one is preferred."""

    dpo_beta: float = setting(
        0.1, "what log-probabilities are multiplied by to be rewards; a small one lets the model move far",
        allowed=Range(above=0),
    )  # fmt: skip
    dpo_label_smoothing: float = setting(
        0.0, "the chance that a pair is the wrong way round", allowed=Range(at_least=0, below=0.5)
    )
    dpo_length_normalized: bool = setting(
        False, "divide the log-probability of an answer by its tokens, so that long ones are not favored"
    )


@dataclass(frozen=True)
class CacheConfig(Settings):
    """How continuations of a reward or a task are sampled. It changes the time and the memory, not the tokens."""

    cache_blocks: int = setting(
        0,
        "blocks of a cache that continuations share, which run in rows that are filled again; 0: all run together, "
        "each with a cache of the whole context",
        allowed=NOT_NEGATIVE,
        machine=True,
    )
    cache_block_size: int = setting(16, "tokens of a block of the cache", allowed=COUNT, machine=True)
    cache_rows: int = setting(
        0,
        "continuations that run together with cache_blocks; 0: as many as have blocks for half a context",
        allowed=NOT_NEGATIVE,
        machine=True,
    )

    def fewest_blocks(self, context: int) -> int:
        """How many blocks the longest text needs: those of a whole context, and one to copy its prompt's last block
        into."""
        return -(-context // self.cache_block_size) + 1
