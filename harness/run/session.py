"""Everything a run needs: data, mesh, compiled functions."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from harness.config import HUGGING_FACE, Config, ModelConfig
from harness.data.batches import Rows, Windows, check_data, make_windows, train_batches, validation_batches
from harness.data.ngrams import NgramLoss, ngram_loss
from harness.data.sources import open_source
from harness.data.token_files import Prepared, prepare
from harness.data.tokenizer import get_tokenizer
from harness.errors import HarnessError, UsageError
from harness.hugging_face.load import read_config, read_parameters
from harness.model.gpt import GPT
from harness.model.lora import base_path
from harness.model.sampling import (
    PROMPTS,
    CachedDecoder,
    Sampling,
    WindowDecoder,
    encode_prompt,
    generate,
    stream_text,
)
from harness.pieces import assemble
from harness.pieces.checkpoints import PieceCheckpointer
from harness.pieces.load import Pieces, attribute_errors_to, check_config
from harness.run.folder import Run
from harness.training.checkpoint import Checkpointer, OrbaxCheckpointer, best_step
from harness.training.sharding import make_mesh, path_names, put_batch
from harness.training.train_step import StepFunctions, make_step_functions

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
        config, tokenizer = self.config, get_tokenizer(self.config.tokenizer)
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

    @property
    def end_of_text(self) -> int:
        """The id of end-of-text."""
        return get_tokenizer(self.config.tokenizer).eot_token

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

    def batches(self) -> Any:
        """An endless iterator over this process's training rows, by the piece `make_loader` if there is one."""
        process, processes = jax.process_index(), jax.process_count()
        if self.pieces is None or "make_loader" not in self.piece_by_name:
            return train_batches(self.config, self.rows, process, processes)
        return assemble.make_batches(self.config, self.pieces, self.rows, process, processes)

    def put(self, rows: Any) -> jax.Array:
        """A batch on the devices, by the piece `shard_batch` if there is one."""
        if "shard_batch" in self.piece_by_name and jax.process_count() == 1:
            shard_batch = self.piece_by_name["shard_batch"]
            return attribute_errors_to(self.pieces, lambda: shard_batch(jnp.asarray(rows), self.mesh))
        return put_batch(rows, self.mesh)

    def checkpointer(self, *, read_only: bool = False) -> Checkpointer:
        """Saves and restores the checkpoints of this run, with the pieces `save` and `resume` if there are any."""
        if self.pieces is not None and "resume" in self.piece_by_name:
            return PieceCheckpointer(self.run.checkpoints, self.functions, self.pieces, self.config.seed)
        return OrbaxCheckpointer(self.run.checkpoints, read_only=read_only)

    def tokens(self, state: Any, ids: list[int], sampling: Sampling, number: int = 0) -> Iterator[int]:
        """The tokens after `ids`, up to end-of-text (not included).

        `number` distinguishes several samples with the same seed.
        """
        model: Any = self.functions.model(state)
        end = self.end_of_text
        if self.pieces is not None:
            return assemble.generate_tokens(self.config, self.pieces, model, ids, sampling, end, number)
        if isinstance(model, GPT):
            return generate(CachedDecoder(model, sampling), ids, sampling, end, number)
        return generate(WindowDecoder(model, sampling, self.config.context), ids, sampling, end, number)

    def validate(self, state: Any) -> float:
        """The mean loss of the validation batches, in nats per token."""
        batches = validation_batches(self.config, self.validation_windows, jax.process_index(), jax.process_count())
        sums = [self.functions.eval_step(state, put_batch(rows, self.mesh)) for rows in batches]
        total, targets = 0.0, 0
        for loss, count in jax.device_get(sums):
            total, targets = total + float(loss), targets + int(count)
        return total / max(targets, 1)


def open_session(run: Run, config: Config, pieces: Pieces | None, *, log: Log, quiet: bool = False) -> Session:
    """The session of a run. Raises UsageError if settings, devices or pieces do not fit together."""
    tokenizer = get_tokenizer(config.tokenizer)
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
        recipe = None if pieces is None else assemble.recipe_from(config, mesh, pieces)
        return make_step_functions(config, mesh, recipe)

    with jax.set_mesh(mesh):
        functions = attribute_errors_to(pieces, make_functions)
    return Session(run, config, mesh, functions, pieces, log, quiet)


def initial_state(session: Session) -> Any:
    """The state at step 0: random, or for fine-tuning with the parameters of the base.

    Raises UsageError if there is no such base, or if its model has other settings.
    """
    config, state = session.config, session.functions.init()
    if not config.base:
        return state
    base = _folder_parameters(session) if config.base.startswith(HUGGING_FACE) else _run_parameters(session)
    adapters = nnx.state(session.functions.model(state), nnx.LoRAParam)
    adapter_names = {path_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(adapters)}

    def from_base(path: Any, leaf: jax.Array) -> jax.Array:
        index, *names = path_names(path)
        if index != "0" or tuple(names) in adapter_names:
            return leaf
        base_leaf = base.get(base_path(tuple(names)))
        if base_leaf is None or base_leaf.shape != leaf.shape:
            base_has = "no such array" if base_leaf is None else f"shape {base_leaf.shape}"
            raise UsageError(
                f"base={config.base} does not fit: {'.'.join(names)} has shape {leaf.shape} in this model and "
                f"{base_has} in the base."
            )
        return jax.device_put(base_leaf, leaf.sharding)

    return jax.tree_util.tree_map_with_path(from_base, state)


def _run_parameters(session: Session) -> Mapping[tuple[str, ...], Any]:
    """The parameters of the best checkpoint of the base run, by path. Raises UsageError if there is no such run."""
    config = session.config
    run = Run.find(session.run.folder.parent, config.base)
    base = dataclasses.replace(run.config(), mesh="1x1", fsdp=False)
    if bool(base.pieces) != bool(session.pieces):
        raise UsageError(
            f"base={config.base} was trained {'with' if base.pieces else 'without'} pieces; "
            f"{'pass its workspace with --pieces' if base.pieces else 'omit --pieces'}."
        )
    _, base_state = load_state(open_session(run, base, session.pieces, log=ignore, quiet=True))
    return {path_names(path)[1:]: leaf for path, leaf in jax.tree_util.tree_leaves_with_path(base_state)}


def _folder_parameters(session: Session) -> Mapping[tuple[str, ...], Any]:
    """The parameters of the base in a folder in Hugging Face's format, by path.

    Raises UsageError if the run has pieces, other settings of the model, or another tokenizer.
    """
    config, folder = session.config, Path(session.config.base.removeprefix(HUGGING_FACE))
    if session.pieces:
        raise UsageError(f"base={config.base} becomes the harness's own model; omit --pieces.")
    settings = read_config(folder)
    tokenizer = settings.pop("tokenizer", config.tokenizer)
    base = ModelConfig(**settings)
    same = [name for name in vars(base) if name not in ("init", "dropout", "dtype", "remat")]
    if base.positions == "rope" and config.context < base.context:
        same.remove("context")  # nothing depends on it
    other = {name: getattr(base, name) for name in same if getattr(base, name) != getattr(config, name)}
    if get_tokenizer(tokenizer).name != get_tokenizer(config.tokenizer).name:
        other["tokenizer"] = tokenizer
    if other:
        needed = " ".join(f"--set {name}={value}" for name, value in other.items())
        raise UsageError(f"The model of base={config.base} has other settings. Add {needed}.")
    return {tuple(path.split(".")): parameter for path, parameter in read_parameters(folder).items()}


def load_state(session: Session, step: int | None = None) -> tuple[int, Any]:
    """The step and the state of the best checkpoint, or of that at `step`. Optimizer arrays have shapes only.

    Raises UsageError if there is no such checkpoint, HarnessError if it is corrupt.
    """
    checkpointer = session.checkpointer(read_only=True)
    try:
        steps = checkpointer.losses()
        chosen = best_step(steps) if step is None else step
        if chosen is None or chosen not in steps:
            missing = "checkpoint" if step is None else f"checkpoint of step {step}"
            hint = f"Existing steps: {', '.join(map(str, steps))}." if steps else "Train it first."
            raise UsageError(f"Run {session.run.folder} has no {missing}. {hint}")
        with jax.set_mesh(session.mesh):  # a run that starts from this one may have set another
            restored = checkpointer.restore(chosen, session.functions.abstract_state, only="0.")
    except ValueError as error:
        raise HarnessError(f"The checkpoint of step {chosen} of {session.run.folder} is corrupt: {error}.") from error
    finally:
        checkpointer.close()
    return restored.step, restored.state


def sample_text(session: Session, state: Any) -> str:
    """The default prompt of the objective, and the model's continuation."""
    tokenizer, prompt = get_tokenizer(session.config.tokenizer), PROMPTS[session.config.objective]
    if session.config.objective == "copy":
        sampling = Sampling(temperature=0.0, max_tokens=8)
    else:
        sampling = Sampling(temperature=0.5, seed=session.config.seed)
    tokens = session.tokens(state, encode_prompt(tokenizer, prompt), sampling)
    return prompt + "".join(stream_text(tokenizer, tokens))


def log_to_stderr(sentence: str) -> None:
    """Prints a sentence to stderr, from the first process only."""
    if jax.process_index() == 0:
        print(sentence, file=sys.stderr, flush=True)


def ignore(sentence: str) -> None:
    """Prints nothing."""
