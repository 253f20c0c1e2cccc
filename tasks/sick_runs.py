"""Trains a small run that goes wrong for a known cause, or the same run with something changed:
`python -m tasks.sick_runs CAUSE SEED FOLDER [--mend] [--figures] [--set KEY=VALUE]`.

The folder holds what a colleague would hand over: metrics, norms by layer, settings, checkpoints, samples and a chart.
None of it names the cause. The same arguments give the same files on one machine. Prints `{"begins": STEP}`.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from harness.config import Config
from harness.data import pocket
from harness.data.tokenizer import get_tokenizer
from harness.model.general import make_gpt
from harness.model.sampling import Sampling, generate_batch, sample_key
from harness.run import charts
from harness.training.optimizer import make_optimizer
from harness.training.sharding import by_dotted_name
from tasks.sick_causes import (
    ATTENTION_LOGITS,
    BAD_BATCH,
    DEAD_LAYER,
    LOW_PRECISION_SUM,
    OTHER_TOKENIZER,
    REPEATED_DATA,
    RESTART_RATE,
    VALIDATION_LEAK,
)

SETTINGS = {
    "steps": "150", "batch_size": "16", "learning_rate": "0.005", "warmup_steps": "10", "clip_norm": "1.0",
    "weight_decay": "0.1", "beta2": "0.95", "context": "64", "d_model": "64", "num_heads": "2", "d_ff": "256",
    "num_layers": "2", "positions": "rope", "norm_kind": "rmsnorm", "bias": "false", "eval_every": "10",
    "data": "pocket", "tokenizer": "pocket-2k",
}  # fmt: skip
SAVED = (50, 100, 150)  # the steps of the checkpoints and the samples
STORIES, HELD_OUT = 1500, 60
VALIDATION_ROWS = 48
PROMPT, SAMPLED = "Once upon a time", 48  # tokens
RESUMED = (55, 85)
QUIET = (35, 100)  # where a cause begins that has nothing to do with the restart
FAR = 8  # steps from the restart at least
GROWN = 40  # steps in which queries and keys come to learn too fast, so that no single step shows it

Parameters = Any


@dataclass(frozen=True)
class Illness:
    """A cause as a seed draws it. The restart is the same in the run without it.

    Attributes:
        cause: Its name.
        begins: The first step that it changes, counted from 1; 0 if it is there before the first.
        resumed: The step after which the run was stopped and resumed.
        strength: How strong it is, from 0 to 1.
        layer: Which layer it hits, if it hits one.
    """

    cause: str
    begins: int
    resumed: int
    strength: float
    layer: int

    @classmethod
    def drawn(cls, cause: str, seed: int) -> "Illness":
        """Returns the cause of a seed. Raises KeyError if there is no such cause."""
        resumed = random.Random(f"resumed {seed}").randint(*RESUMED)  # noqa: S311 - not for cryptography
        rng = random.Random(f"{cause} {seed}")  # noqa: S311
        quiet = rng.choice([step for step in range(*QUIET) if abs(step - resumed) > FAR])
        after = resumed + 1
        begins = {
            RESTART_RATE: after, REPEATED_DATA: after, OTHER_TOKENIZER: after, BAD_BATCH: quiet,
            DEAD_LAYER: 0, ATTENTION_LOGITS: 0, VALIDATION_LEAK: quiet, LOW_PRECISION_SUM: quiet,
        }  # fmt: skip
        return cls(cause, begins[cause], resumed, rng.random(), rng.randrange(int(SETTINGS["num_layers"])))

    def between(self, low: float, high: float) -> float:
        """Returns the strength on a scale from `low` to `high`."""
        return low + (high - low) * self.strength


@dataclass(frozen=True)
class Data:
    """The rows of tokens of a run.

    Attributes:
        seed: The seed of the stories and of the order of rows.
        context: The tokens of a row.
    """

    seed: int
    context: int

    @cached_property
    def train(self) -> np.ndarray:
        """The rows for training, `(N, context + 1)`, in the order in which they are read."""
        rows = self._rows(STORIES, 0)
        return rows[np.random.default_rng(self.seed).permutation(len(rows))]

    @cached_property
    def validation(self) -> np.ndarray:
        """The rows for validation, of stories that are not in `train`."""
        return self._rows(HELD_OUT, STORIES)[:VALIDATION_ROWS]

    def _rows(self, count: int, start: int) -> np.ndarray:
        tokenizer = get_tokenizer(SETTINGS["tokenizer"])
        stories = pocket.stories(count, seed=self.seed, start=start)
        ids = [token for each in stories for token in [*tokenizer.encode_ordinary(each), tokenizer.eot_token]]
        number = (len(ids) - 1) // self.context
        return np.stack([ids[row * self.context : (row + 1) * self.context + 1] for row in range(number)]).astype(
            np.int32
        )


@dataclass(frozen=True)
class Feed:
    """What each step reads, sound or with a cause.

    Attributes:
        data: The rows.
        illness: The cause; None in a run without it.
        size: The rows of a batch.
        vocabulary: The number of token ids. The last one ends a text.
    """

    data: Data
    illness: Illness | None
    size: int
    vocabulary: int

    def batch(self, step: int) -> np.ndarray:
        """The rows of a step, counted from 1, `(B, T + 1)`."""
        rows, ill = self._read(step - 1), self.illness
        if ill is None or step < ill.begins:
            return rows
        if ill.cause == REPEATED_DATA:
            return self._read((step - ill.begins) % round(ill.between(3, 6)) + ill.begins - 1)
        if ill.cause == BAD_BATCH and step == ill.begins:
            return self._broken(rows, ill)
        if ill.cause == VALIDATION_LEAK:
            leaked = round(ill.between(7, 10))
            chosen = np.random.default_rng([self.data.seed, step]).permutation(len(self.data.validation))[:leaked]
            return np.concatenate([self.data.validation[chosen], rows[leaked:]])
        return self.ids(step)[rows]

    def ids(self, step: int) -> np.ndarray:
        """The id that each token of the tokenizer gets at a step: with another tokenizer, that of another token."""
        ids, ill = np.arange(self.vocabulary, dtype=np.int32), self.illness
        if ill is None or ill.cause != OTHER_TOKENIZER or step < ill.begins:
            return ids
        rng = np.random.default_rng(self.data.seed)
        moved = rng.permutation(self.vocabulary - 1)[: round(ill.between(0.6, 1.0) * (self.vocabulary - 1))]
        ids[np.sort(moved)] = moved
        return ids

    def _read(self, number: int) -> np.ndarray:
        return self.data.train[np.arange(number * self.size, (number + 1) * self.size) % len(self.data.train)]

    def _broken(self, rows: np.ndarray, illness: Illness) -> np.ndarray:
        """Rows that repeat one token each, or rows of random tokens."""
        rng = np.random.default_rng(self.data.seed)
        if illness.strength < 0.5:
            return np.broadcast_to(rng.integers(0, self.vocabulary, (len(rows), 1), np.int32), rows.shape)
        return rng.integers(0, self.vocabulary, rows.shape, np.int32)


@dataclass(frozen=True)
class Trainer:
    """The model, the optimizer, and the programs that are made of them."""

    config: Config

    @cached_property
    def parts(self) -> tuple[Any, Parameters, Any]:
        """The static part of the model, its parameters at the start, and the rest."""
        split: Any = nnx.split(make_gpt(self.config.model, nnx.Rngs(self.config.seed)), nnx.Param, ...)
        return split

    @cached_property
    def optimizer(self) -> optax.GradientTransformation:
        """The optimizer of the harness with these settings."""
        return make_optimizer(self.config)

    def model(self, parameters: Parameters) -> Any:
        """The model with these parameters."""
        return nnx.merge(self.parts[0], parameters, self.parts[2])

    def losses(self, parameters: Parameters, ids_BT: jax.Array) -> jax.Array:
        """The loss of each target, in nats, `(N,)`."""
        logits_BTV = self.model(parameters)(ids_BT[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits_BTV, ids_BT[:, 1:]).reshape(-1)

    @cached_property
    def step(self) -> Callable[..., Any]:
        """The train step: `(parameters, state, ids, factor, low)` to both, the loss, and norms by name. All updates are
        multiplied by `factor[0]`, and those of queries and keys by `factor[1]`. With `low`, the loss is summed in
        bfloat16."""

        @partial(jax.jit, static_argnames="low")
        def run(parameters: Parameters, state: Any, ids_BT: jax.Array, factors: jax.Array, low: bool) -> Any:
            def mean(parameters: Parameters) -> jax.Array:
                losses_N = self.losses(parameters, ids_BT)
                return (_low_sum(losses_N) if low else jnp.sum(losses_N)) / len(losses_N)

            loss, gradients = jax.value_and_grad(mean)(parameters)
            updates, state = self.optimizer.update(gradients, state, parameters)
            updates = scaled(updates, factors)
            norms = {
                f"{layer}.{kind}": norm
                for kind, tree in (("weight", parameters), ("gradient", gradients), ("update", updates))
                for layer, norm in _norms(tree, self.config.num_layers).items()
            } | self.largest_logits(parameters, ids_BT)
            return optax.apply_updates(parameters, updates), state, loss, optax.tree.norm(gradients), norms

        return run

    def largest_logits(self, parameters: Parameters, ids_BT: jax.Array) -> dict[str, jax.Array]:
        """The largest attention logit of each layer in the rows of a batch, before the softmax: of the queries and keys
        that the model attends with."""
        model, found = self.model(parameters), {}
        graph, parameters_L = nnx.split(model.blocks)
        x_BTD = model.embed[ids_BT[:, :-1]]
        T = x_BTD.shape[1]
        for layer in range(self.config.num_layers):
            block: Any = nnx.merge(graph, jax.tree.map(lambda leaf, layer=layer: leaf[layer], parameters_L))
            attended: list[jax.Array] = []

            def attend(*given: Any, attend: Any = block.attn._attend, attended: list[Any] = attended) -> Any:
                attended += given[-3:-1]
                return attend(*given)

            object.__setattr__(block.attn, "_attend", attend)  # of this block alone, and no part of the model
            x_BTD, _ = block(x_BTD)
            q_BTHK, k_BTHK = attended
            logits_BHTS = jnp.einsum("bthk,bshk->bhts", q_BTHK, k_BTHK) * q_BTHK.shape[-1] ** -0.5
            found[f"block{layer}.attention.logit"] = jnp.max(
                jnp.where(jnp.tril(jnp.ones((T, T), bool)), jnp.abs(logits_BHTS), 0)
            )
        return found

    @cached_property
    def evaluate(self) -> Callable[[Parameters, Any], jax.Array]:
        """The mean loss of rows."""
        return jax.jit(lambda parameters, ids_BT: jnp.mean(self.losses(parameters, ids_BT)))


def _low_sum(losses_N: jax.Array) -> jax.Array:
    """The sum, one loss after another, in bfloat16."""

    def add(total: jax.Array, loss: jax.Array) -> tuple[jax.Array, None]:
        return total + loss.astype(jnp.bfloat16), None

    total, _ = jax.lax.scan(add, jnp.zeros((), jnp.bfloat16), losses_N)
    return total.astype(jnp.float32)


def scaled(updates: Parameters, factors: jax.Array) -> Parameters:
    """The updates times the first factor, and those of queries and keys times the second."""

    def scale(path: Any, leaf: jax.Array) -> jax.Array:
        if "qkv" not in jax.tree_util.keystr(path):
            return leaf * factors[0]
        return leaf * factors[0] * jnp.array([factors[1], factors[1], 1.0])[:, None, None]  # (L, D, 3, H, K)

    return jax.tree_util.tree_map_with_path(scale, updates)


def _norms(tree: Parameters, layers: int) -> dict[str, jax.Array]:
    """The norms of the embedding, and of attention and the feed-forward layer of each block."""
    squares: dict[str, Any] = {}
    for name, leaf in by_dotted_name(tree).items():
        if name.startswith("embed"):
            squares["embed"] = jnp.sum(jnp.square(leaf))
        for start, part in (("blocks.attn.", "attention"), ("blocks.ff", "feed_forward")):
            for layer in range(layers if name.startswith(start) else 0):
                key = f"block{layer}.{part}"
                squares[key] = squares.get(key, 0.0) + jnp.sum(jnp.square(leaf[layer]))
    return {name: jnp.sqrt(each) for name, each in squares.items()}


def _dead(parameters: Parameters, illness: Illness) -> Parameters:
    """Parameters of which one layer of one block is zero, so that it gets no gradient."""
    start = "blocks.attn." if illness.strength < 0.5 else "blocks.ff"
    leaves, structure = jax.tree.flatten(parameters)
    named = zip(by_dotted_name(parameters), leaves, strict=True)
    dead = [leaf.at[illness.layer].set(0) if name.startswith(start) else leaf for name, leaf in named]
    return jax.tree.unflatten(structure, dead)


@dataclass(frozen=True)
class Run:
    """A run of a seed, with a cause or without.

    Attributes:
        config: Its settings.
        illness: The cause; None in a run without it.
    """

    config: Config
    illness: Illness | None

    @cached_property
    def trainer(self) -> Trainer:
        """What trains it."""
        return Trainer(self.config)

    @cached_property
    def feed(self) -> Feed:
        """What it reads."""
        data = Data(self.config.seed, self.config.context)
        return Feed(data, self.illness, self.config.batch_size, self.config.vocab_size)

    def steps(self) -> Iterator[tuple[int, Parameters, dict[str, Any], dict[str, Any]]]:
        """Yields for each step its number, the parameters after it, its line of metrics and its norms."""
        trainer, feed, ill = self.trainer, self.feed, self.illness
        parameters = trainer.parts[1]
        if ill and ill.cause == DEAD_LAYER:
            parameters = _dead(parameters, ill)
        state = trainer.optimizer.init(parameters)
        for step in range(1, self.config.steps + 1):
            low = ill is not None and ill.cause == LOW_PRECISION_SUM and step >= ill.begins
            ids_BT = jnp.asarray(feed.batch(step))
            parameters, state, loss, norm, norms = trainer.step(parameters, state, ids_BT, self._factors(step), low)
            line: dict[str, Any] = {"step": step, "loss": loss, "gradient_norm": norm}
            if step % self.config.eval_every == 0:
                line["validation_loss"] = trainer.evaluate(parameters, feed.ids(step)[feed.data.validation])
            yield step, parameters, _numbers(line), {"step": step, **_numbers(norms)}

    def _factors(self, step: int) -> jax.Array:
        ill = self.illness
        if ill is None or step < ill.begins:
            return jnp.ones(2)
        if ill.cause == RESTART_RATE:
            return jnp.array([ill.between(8, 16), 1.0])
        if ill.cause == ATTENTION_LOGITS:
            return jnp.array([1.0, 1 + (ill.between(12, 24) - 1) * min(step / GROWN, 1)])
        return jnp.ones(2)

    def sample(self, parameters: Parameters, step: int) -> str:
        """A text that the model writes."""
        tokenizer = get_tokenizer(self.config.tokenizer)
        ids = self.feed.ids(step)
        tokens = np.argsort(ids)  # of ids, under the tokenizer of this step
        prompt = ids[np.array([tokenizer.encode_ordinary(PROMPT)])]
        sampling = Sampling(max_tokens=SAMPLED, seed=self.config.seed)
        key = sample_key(self.config.seed, 0)[None]
        (written,) = generate_batch(
            self.trainer.model(parameters), prompt, sampling, int(ids[tokenizer.eot_token]), key
        )
        return PROMPT + tokenizer.decode([int(tokens[each]) for each in written if each < len(tokens)])


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """The values as numbers, in the same order."""
    read = jax.device_get(values)
    return {name: read[name] if isinstance(read[name], int) else float(read[name]) for name in values}


def write(run: Run, folder: Path, resumed: int, *, figures: bool) -> None:
    """Trains a run and writes its folder. With `figures`, only its metrics and norms."""
    folder.mkdir(parents=True, exist_ok=True)
    metrics, norms = [], []
    for step, parameters, line, by_layer in run.steps():
        metrics.append(line)
        norms.append(by_layer)
        if step in SAVED and not figures:
            arrays: dict[str, Any] = {name: np.asarray(leaf) for name, leaf in by_dotted_name(parameters).items()}
            np.savez(folder / f"step_{step}.npz", **arrays)
            (folder / f"sample_{step}.txt").write_text(run.sample(parameters, step) + "\n", encoding="utf-8")
    for name, lines in (("metrics", metrics), ("norms", norms)):
        text = "".join(json.dumps(each) + "\n" for each in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    if not figures:
        known = {**{name: getattr(run.config, name) for name in SETTINGS}, "resumed_after_step": resumed}
        (folder / "settings.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        (folder / "loss.svg").write_text(charts.losses(metrics, "the run", {}), encoding="utf-8")


def main() -> None:
    """Trains the run that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m tasks.sick_runs")
    parser.add_argument("cause", help="its name; - reads it from stdin")
    parser.add_argument("seed", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mend", action="store_true", help="take the cause out")
    parser.add_argument("--figures", action="store_true", help="write metrics and norms only")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    illness = Illness.drawn(sys.stdin.read().strip() if given.cause == "-" else given.cause, given.seed)
    own = {"seed": str(given.seed), "vocab_size": str(get_tokenizer(SETTINGS["tokenizer"]).n_vocab)}
    changed = dict(each.partition("=")[::2] for each in given.set)
    config = Config().with_settings({**SETTINGS, **own, **changed})
    write(Run(config, None if given.mend else illness), given.folder, illness.resumed, figures=given.figures)
    print(json.dumps({"begins": illness.begins}))


if __name__ == "__main__":
    main()
