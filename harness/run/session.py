"""Everything a run needs: data, mesh, compiled functions."""

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tiktoken
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Int

from harness.config import Config
from harness.data.batches import PADDING, Rows, Windows, check_data, make_windows, train_batches, validation_batches
from harness.data.ngrams import NgramLoss, ngram_loss
from harness.data.sources import open_source
from harness.data.token_files import Prepared, prepare
from harness.data.tokenizer import token_bytes
from harness.errors import HarnessError, UsageError
from harness.model import lora
from harness.model.sampling import (
    PROMPTS,
    CachedDecoder,
    Sampling,
    encode_prompt,
    generate,
    generate_batch,
    sample_key,
    stream_text,
)
from harness.pieces import assemble
from harness.pieces.checkpoints import PieceCheckpointer
from harness.pieces.load import Pieces, attribute_errors_to, check_config
from harness.run.feed import DataFeed, Feed
from harness.run.folder import BaseRecord, Run
from harness.run.nan_check import stop_at_nan
from harness.run.rewards import get_reward
from harness.run.rollouts import RolloutFeed
from harness.training.checkpoint import (
    Checkpointer,
    OrbaxCheckpointer,
    best_step,
    digest,
    is_abstract,
    last_good_step,
)
from harness.training.grpo import reinforced
from harness.training.recipe import default_recipe
from harness.training.sharding import by_dotted_name, make_mesh, path_names, put_batch
from harness.training.train_step import MODEL, StepFunctions, make_step_functions

Log = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Session:
    """Everything that a run needs except its state."""

    run: Run
    config: Config
    mesh: Mesh
    functions: StepFunctions
    pieces: Pieces | None
    log: Log
    quiet: bool

    @functools.cached_property
    def prepared(self) -> Prepared:
        """The tokens, opened when they are first needed: a trained model does without.

        Raises UsageError if they do not fit the settings, or are not those that the run was trained on.
        """
        config, tokenizer = self.config, self.tokenizer
        self.run.check_tokenizer(config.tokenizer)
        source = open_source(config.data, config.validation_fraction)
        # Other settings of the data are a difference of settings, which is reported as such.
        trained = self.run.config() if self.run.config_file.exists() else config
        same = (trained.data, trained.validation_fraction) == (config.data, config.validation_fraction)
        if same and (known := self.run.data_key()) not in ("", source.key):
            raise UsageError(
                f"The data of run {self.run.folder} have changed: {source.name} had the key {known}, and now has {source.key}. "
                "Put the former data back, or start another run with --run NAME."
            )
        tokenize = self.piece_by_name.get("tokenize")
        key = f"-{self.pieces.digest}" if self.pieces and tokenize else ""
        prepared = attribute_errors_to(
            self.pieces, lambda: prepare(source, tokenizer, tokenize=tokenize, key=key, quiet=self.quiet)
        )
        for sentence in check_data(config, prepared):
            self.log(sentence)
        return prepared

    @property
    def piece_by_name(self) -> dict[str, Any]:
        """The pieces by name; empty without a workspace."""
        return self.pieces.by_name if self.pieces else {}

    @functools.cached_property
    def tokenizer(self) -> tiktoken.Encoding:
        """The tokenizer of the config. A run keeps a copy of one from a file."""
        return self.run.tokenizer(self.config.tokenizer)

    @property
    def end_of_text(self) -> int:
        """The id of end-of-text."""
        return self.tokenizer.eot_token

    @functools.cached_property
    def rows(self) -> Rows:
        """The training windows, by the piece `pack` if there is one."""
        if self.pieces is not None and "pack" in self.piece_by_name:
            return assemble.pack_windows(self.config, self.pieces, self.prepared.train)
        return make_windows(self.config, self.prepared.train)

    @functools.cached_property
    def validation_windows(self) -> Windows:
        """The validation windows."""
        return make_windows(self.config, self.prepared.validation)

    @functools.cached_property
    def ngrams(self) -> NgramLoss | None:
        """The losses of n-gram models on the same data. None where they say nothing about the objective."""
        if self.config.objective != "next_token":
            return None
        return ngram_loss(self.prepared.train, self.prepared.validation, self.config.vocab_size)

    def feed(self) -> Feed:
        """The batches of this process: rollouts, or the data by the pieces `make_loader` and `shard_batch` if there are any."""
        if self.config.reward:
            return RolloutFeed(self, self.functions.model(initial_state(self)[0]), get_reward(self.config.reward))
        process, processes = jax.process_index(), jax.process_count()
        if self.pieces is None or "make_loader" not in self.piece_by_name:
            rows = train_batches(self.config, self.rows, process, processes)
        else:
            rows = assemble.make_batches(self.config, self.pieces, self.rows, process, processes)
        return DataFeed(rows, self.mesh, self.pieces)

    def checkpointer(self, *, read_only: bool = False) -> Checkpointer:
        """Saves and restores the checkpoints of this run, with the pieces `save` and `resume` if there are any."""
        if self.pieces is not None and "resume" in self.piece_by_name:
            return PieceCheckpointer(
                self.run.checkpoints, self.functions, self.pieces, self.config.seed, keep=self.config.keep
            )
        # Checkpoints of adapters used to hold the base as well; runs of that time have no record of it.
        holds_all = self.run.config_file.exists() and self.run.base() is None
        left_out = frozenset() if holds_all else self.functions.frozen
        return OrbaxCheckpointer(self.run.checkpoints, keep=self.config.keep, read_only=read_only, left_out=left_out)

    def tokens(self, model: Any, ids: list[int], sampling: Sampling, number: int = 0) -> Iterator[int]:
        """The tokens after `ids`, up to end-of-text (not included).

        `number` distinguishes several samples with the same seed.
        """
        if self.pieces is not None:
            return assemble.generate_tokens(self.config, self.pieces, model, ids, sampling, self.end_of_text, number)
        return generate(CachedDecoder(model, sampling), ids, sampling, self.end_of_text, number)

    def samples(
        self, model: Any, ids_BT: Int[np.ndarray, "B T"], sampling: Sampling, first: int = 0
    ) -> Iterable[list[int]]:
        """A continuation of each row, sampled together where the model has the harness's cache.

        Row i is sample `first + i` of the seed, as in `tokens`.
        """
        if self.pieces is None:
            numbers_B = jnp.arange(first, first + len(ids_BT))
            keys_B = jax.vmap(functools.partial(sample_key, sampling.seed))(numbers_B)
            return generate_batch(model, ids_BT, sampling, self.end_of_text, keys_B)
        rows = enumerate(ids_BT.tolist(), first)
        return (list(self.tokens(model, ids, sampling, number)) for number, ids in rows)

    def validate(self, state: Any) -> float:
        """The mean loss of the validation batches, in nats per token."""
        batches = validation_batches(self.config, self.validation_windows, jax.process_index(), jax.process_count())
        sums = [self.functions.eval_step(state, put_batch(rows, self.mesh)) for rows in batches]
        total, targets = 0.0, 0
        for loss, count in jax.device_get(sums):
            total, targets = total + float(loss), targets + int(count)
        return total / max(targets, 1)

    @functools.cached_property
    def _bytes_per_target(self) -> float:
        """The mean number of UTF-8 bytes of the targets of `validate`. 0 where that is unknown or says nothing."""
        tokenizer = self.tokenizer
        if self.config.objective != "next_token" or self.prepared.max_id >= tokenizer.n_vocab:
            return 0.0  # a copied token takes no bits; the piece `tokenize` may make ids of its own
        lengths = token_bytes(tokenizer)
        batches = validation_batches(self.config, self.validation_windows)
        targets = np.concatenate([rows[:, 1:][rows[:, 1:] != PADDING] for rows in batches])
        return float(lengths[targets].mean())

    def bits_per_byte(self, loss: float | None) -> float | None:
        """A loss of `validate` in bits per UTF-8 byte of the text, which does not depend on the tokenizer.

        The loss of end-of-text counts, its bytes do not: predicting where a story ends is part of the cost of its text. None if
        there is no loss, or no number of bytes. Formula: Gao et al. 2020, "The Pile", section 3.
        """
        return loss / math.log(2) / self._bytes_per_target if loss is not None and self._bytes_per_target else None


def open_session(run: Run, config: Config, pieces: Pieces | None, *, log: Log, quiet: bool = False) -> Session:
    """The session of a run. Raises UsageError if settings, devices or pieces do not fit together."""
    tokenizer = run.tokenizer(config.tokenizer)
    if not config.vocab_size:
        config = dataclasses.replace(config, vocab_size=tokenizer.n_vocab)
    if pieces is not None:
        config = dataclasses.replace(config, pieces=pieces.names())
        check_config(config, pieces)
    mesh = make_mesh(config)
    if pieces is not None and "make_mesh" in pieces.by_name and jax.process_count() == 1:
        shape, make_piece_mesh = mesh.devices.shape, pieces.by_name["make_mesh"]
        mesh = attribute_errors_to(pieces, lambda: make_piece_mesh(*shape))

    def make_functions() -> StepFunctions:
        recipe = default_recipe(config, mesh) if pieces is None else assemble.recipe_from(config, mesh, pieces)
        return make_step_functions(config, mesh, reinforced(config, recipe) if config.reward else recipe)

    with jax.set_mesh(mesh):
        functions = attribute_errors_to(pieces, make_functions)
    if config.debug_nans:
        train_step = stop_at_nan(functions, pieces.folder if pieces else None)
        functions = dataclasses.replace(functions, train_step=train_step)
    return Session(run, config, mesh, functions, pieces, log, quiet)


def initial_state(session: Session) -> tuple[Any, BaseRecord | None]:
    """The state at step 0: random, or for fine-tuning with the parameters of the base, and which base that was.

    Raises UsageError if there is no such run, or if its model has other sizes.
    """
    state = session.functions.init()
    if not session.config.base:
        return state, None
    adapters = by_dotted_name(nnx.state(session.functions.model(state), nnx.LoRAParam))
    return _from_base(session, state, lambda name, leaf: name not in adapters)


def completed(session: Session, state: Any) -> Any:
    """A restored state, with the parameters of the base where a checkpoint of adapters holds none.

    Raises UsageError, naming the base, if it is missing or has changed.
    """
    if not any(is_abstract(leaf) for name, leaf in by_dotted_name(state).items() if name.startswith(MODEL)):
        return state
    return _from_base(session, state, lambda name, leaf: is_abstract(leaf))[0]


def _from_base(session: Session, state: Any, wanted: Callable[[str, Any], bool]) -> tuple[Any, BaseRecord]:
    """The state with the base's parameters in place of the model's wanted leaves, given by name, and which base that was."""
    base, record = _load_base(session)

    def from_base(path: Any, leaf: Any) -> Any:
        index, *names = path_names(path)
        if index != "0" or not wanted(".".join(names), leaf):
            return leaf
        base_leaf = base.get(".".join(lora.base_path(tuple(names))))
        if base_leaf is None or base_leaf.shape != leaf.shape:
            base_has = "no such array" if base_leaf is None else f"shape {base_leaf.shape}"
            raise UsageError(
                f"base={session.config.base} does not fit: {'.'.join(names)} has shape {leaf.shape} in this model and "
                f"{base_has} in the base."
            )
        return jax.device_put(base_leaf, leaf.sharding)

    return jax.tree_util.tree_map_with_path(from_base, state), record


def _load_base(session: Session) -> tuple[dict[str, jax.Array], BaseRecord]:
    """The parameters of the base by dotted name, its own adapters merged: of its best checkpoint, or of that which is recorded.

    Raises UsageError if there is no such run, or if it is not the recorded one.
    """
    config, recorded = session.config, session.run.base()
    try:
        run = Run.find(session.run.folder.parent, config.base)
        base = dataclasses.replace(
            run.config(),
            mesh=config.mesh,  # that of this run, so that no device ever holds the whole base
            fsdp=config.fsdp,
            batch_size=config.batch_size,
            grad_accumulation_steps=config.grad_accumulation_steps,
        )
        if bool(base.pieces) != bool(session.pieces):
            raise UsageError(
                f"base={config.base} was trained {'with' if base.pieces else 'without'} pieces; "
                f"{'pass its workspace with --pieces' if base.pieces else 'omit --pieces'}."
            )
        base_session = open_session(run, base, session.pieces, log=ignore, quiet=True)
        step, state = load_state(base_session, recorded and recorded.step)
    except UsageError as error:
        if recorded is None:
            raise
        raise UsageError(f"Run {session.run.folder} needs its base {config.base}. {error}") from error
    record = BaseRecord(step, digest({name: leaf for name, leaf in by_dotted_name(state).items() if name[:2] == MODEL}))
    if recorded not in (None, record):
        raise UsageError(
            f"The base {config.base} of run {session.run.folder} has changed. Put the former {run.folder} back, or start another "
            "run with --run NAME."
        )
    model = base_session.functions.model(state)
    if base.lora_rank:
        model = lora.merge_adapters(model, *filter(None, [base_session.piece_by_name.get("merge")]))
    return by_dotted_name(nnx.state(model)), record


def load_state(session: Session, step: int | None = None) -> tuple[int, Any]:
    """The step and the state of the best checkpoint, or of that at `step`. Optimizer arrays have shapes only.

    Raises UsageError if there is no such checkpoint, HarnessError if it is corrupt.
    """
    checkpointer = session.checkpointer(read_only=True)
    try:
        steps = checkpointer.losses()
        # Rewards are paid for in validation loss, so the last checkpoint of reinforcement learning is its best.
        best = last_good_step if session.config.reward else best_step
        chosen = best(steps) if step is None else step
        if chosen is None or chosen not in steps:
            missing = "checkpoint" if step is None else f"checkpoint of step {step}"
            hint = f"Existing steps: {', '.join(map(str, steps))}." if steps else "Train it first."
            raise UsageError(f"Run {session.run.folder} has no {missing}. {hint}")
        with jax.set_mesh(session.mesh):  # a run that starts from this one may have set another
            restored = checkpointer.restore(chosen, session.functions.abstract_state, only=MODEL)
    except ValueError as error:
        raise HarnessError(f"The checkpoint of step {chosen} of {session.run.folder} is corrupt: {error}.") from error
    finally:
        checkpointer.close()
    return restored.step, completed(session, restored.state)


def sample_text(session: Session, model: Any) -> str:
    """The default prompt of the objective, and the model's continuation."""
    tokenizer, prompt = session.tokenizer, PROMPTS[session.config.objective]
    if session.config.objective == "copy":
        sampling = Sampling(temperature=0.0, max_tokens=8)
    else:
        sampling = Sampling(temperature=0.5, seed=session.config.seed)
    tokens = session.tokens(model, encode_prompt(tokenizer, prompt), sampling)
    return prompt + "".join(stream_text(tokenizer, tokens))


def log_to_stderr(sentence: str) -> None:
    """Prints a sentence to stderr, from the first process only."""
    if jax.process_index() == 0:
        print(sentence, file=sys.stderr, flush=True)


def ignore(sentence: str) -> None:
    """Prints nothing."""
