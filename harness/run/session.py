"""A run made ready: data, mesh and programs, of the harness's own parts or of the workspace's."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from harness.config import Config
from harness.data.batches import Rows, Windows, check, train_batches, validation_batches, windows
from harness.data.sources import open_source
from harness.data.token_files import Prepared, prepare
from harness.data.tokenizer import get_tokenizer
from harness.errors import HarnessError, UsageError
from harness.model import lora
from harness.model.gpt import GPT
from harness.model.sampling import PROMPTS, CachedDecoder, Sampling, WindowDecoder, encode_prompt, generate, stream_text
from harness.pieces import adapt
from harness.pieces import load as pieces
from harness.pieces.checkpoints import PieceCheckpoints
from harness.run.folder import Run
from harness.training.checkpoint import Checkpoints, Keeper
from harness.training.sharding import make_mesh, path_names, put_batch
from harness.training.train_step import Programs, make_programs

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Session:
    """Everything of a run but the state."""

    run: Run
    config: Config
    prepared: Prepared
    mesh: Mesh
    programs: Programs
    pieces: pieces.Pieces | None

    @property
    def found(self) -> dict[str, Any]:
        """The workspace's pieces by name."""
        return self.pieces.found if self.pieces else {}

    @functools.cached_property
    def rows(self) -> Rows:
        """The windows to train on, packed by the workspace if it can."""
        if self.pieces is not None and "pack" in self.found:
            return adapt.packed(self.config, self.pieces, self.prepared.train)
        return windows(self.config, self.prepared.train)

    @functools.cached_property
    def held_out(self) -> Windows:
        """The windows to validate on."""
        return windows(self.config, self.prepared.validation)

    def batches(self) -> Any:
        """An endless iterator over this process's training rows, by the workspace's pipeline if it has one."""
        place = jax.process_index(), jax.process_count()
        if self.pieces is None or "make_loader" not in self.found:
            return train_batches(self.config, self.rows, *place)
        return adapt.loader(self.config, self.pieces, self.rows, *place)

    def put(self, rows: Any) -> jax.Array:
        """A batch on the devices."""
        if "shard_batch" in self.found and jax.process_count() == 1:
            return pieces.blame(self.pieces, lambda: self.found["shard_batch"](jnp.asarray(rows), self.mesh))
        return put_batch(rows, self.mesh)

    def checkpoints(self, *, read_only: bool = False) -> Keeper:
        """What keeps this run's checkpoints."""
        if self.pieces is not None and "resume" in self.found:
            return PieceCheckpoints(self.run.checkpoints, self.programs, self.pieces, self.config.seed)
        return Checkpoints(self.run.checkpoints, read_only=read_only)

    def tokens(self, state: Any, ids: list[int], sampling: Sampling, number: int = 0) -> Iterator[int]:
        """The tokens that follow `ids`, up to end-of-text (not given). `number` tells several samples of a seed apart."""
        model: Any = self.programs.model(state)
        end = self.prepared.end_of_text
        if self.pieces is None and isinstance(model, GPT):
            return generate(CachedDecoder(model, sampling), ids, sampling, end, number)
        if self.pieces is None:
            return generate(WindowDecoder(model, sampling, self.config.context), ids, sampling, end, number)
        return adapt.tokens(self.config, self.pieces, model, ids, sampling, end, number)

    def validate(self, state: Any) -> float:
        """The mean loss, in nats a token, of the validation batches."""
        loss, count = 0.0, 0
        sums = [
            self.programs.evaluate(state, put_batch(rows, self.mesh))
            for rows in validation_batches(self.config, self.held_out, jax.process_index(), jax.process_count())
        ]
        for part, number in jax.device_get(sums):
            loss, count = loss + float(part), count + int(number)
        return loss / max(count, 1)


def open_session(run: Run, config: Config, found: pieces.Pieces | None, *, say: Say, quiet: bool = False) -> Session:
    """Data, mesh and programs of a run. Raises UsageError for settings, data or devices that do not go together."""
    tokenizer = get_tokenizer(config.tokenizer)
    if not config.vocab_size:
        config = dataclasses.replace(config, vocab_size=tokenizer.n_vocab)
    source = open_source(config.data, config.validation)
    if found is None:
        prepared = prepare(source, tokenizer, quiet=quiet)
    else:
        config = dataclasses.replace(config, pieces=found.names())
        pieces.check_config(config, found)
        tokenize, key = found.found.get("tokenize"), f"-{found.digest}" if "tokenize" in found.found else ""
        prepared = pieces.blame(found, lambda: prepare(source, tokenizer, theirs=tokenize, key=key, quiet=quiet))
    for sentence in check(config, prepared):
        say(sentence)
    mesh = make_mesh(config)
    if found is not None and "make_mesh" in found.found and jax.process_count() == 1:
        mesh = pieces.blame(found, lambda: found.found["make_mesh"](*mesh.devices.shape))
    with jax.set_mesh(mesh):
        if found is None:
            programs = make_programs(config, mesh)
        else:
            programs = pieces.blame(found, lambda: make_programs(config, mesh, adapt.theirs(config, found)))
    return Session(run, config, prepared, mesh, programs, found)


def start_from(session: Session) -> Any:
    """The state at step 0: drawn, or, for fine-tuning, with the parameters of the base run's best checkpoint.

    Raises UsageError if there is no such run, or if its model has other sizes.
    """
    config, state = session.config, session.programs.create()
    if not config.base:
        return state
    run = Run.find(session.run.folder.parent, config.base)
    base = dataclasses.replace(run.config(), mesh="1x1", fsdp=False)
    if bool(base.pieces) != bool(session.pieces):
        raise UsageError(
            f"base={config.base} was trained {'with' if base.pieces else 'without'} pieces; "
            f"{'name the workspace with --pieces' if base.pieces else 'leave out --pieces'}."
        )
    _, loaded = load_state(open_session(run, base, session.pieces, say=lambda sentence: None, quiet=True))
    learned = {path_names(path)[1:]: leaf for path, leaf in jax.tree_util.tree_leaves_with_path(loaded)}
    adapters = nnx.state(session.programs.model(state), nnx.LoRAParam)
    new = {path_names(path) for path, _ in jax.tree_util.tree_leaves_with_path(adapters)}

    def begin(path: Any, leaf: jax.Array) -> jax.Array:
        index, *names = path_names(path)
        if index != "0" or tuple(names) in new:
            return leaf
        given = learned.get(lora.without_adapters(tuple(names)))
        if given is None or given.shape != leaf.shape:
            here, there = f"{'.'.join(names)} {leaf.shape}", "no such array" if given is None else str(given.shape)
            raise UsageError(f"base={config.base} does not fit: this model has {here}, that one {there}.")
        return jax.device_put(given, leaf.sharding)

    return jax.tree_util.tree_map_with_path(begin, state)


def load_state(session: Session, step: int | None = None) -> tuple[int, Any]:
    """The state at the best checkpoint, or at `step`; of the optimizer's part, shapes only. Raises UsageError if there is
    none."""
    checkpoints = session.checkpoints(read_only=True)
    try:
        steps = checkpoints.steps()
        chosen = checkpoints.best() if step is None else step
        if chosen is None or chosen not in steps:
            there = f"There are: {', '.join(map(str, steps))}." if steps else "There is none yet."
            raise UsageError(
                f"Run {session.run.folder} has no checkpoint{'' if step is None else f' of step {step}'}. {there}"
            )
        restored = checkpoints.restore(chosen, session.programs.abstract, only="0.")
    except ValueError as error:
        raise HarnessError(f"The checkpoint of step {chosen} of {session.run.folder} is damaged: {error}.") from error
    finally:
        checkpoints.close()
    return restored.step, restored.state


def sample_text(session: Session, state: Any) -> str:
    """The task's prompt and how the model goes on."""
    tokenizer, prompt = get_tokenizer(session.config.tokenizer), PROMPTS[session.config.task]
    if session.config.task == "same":
        sampling = Sampling(temperature=0.0, max_tokens=8)
    else:
        sampling = Sampling(temperature=0.5, seed=session.config.seed)
    tokens = session.tokens(state, encode_prompt(tokenizer, prompt), sampling)
    return prompt + "".join(stream_text(tokenizer, tokens))


def say(sentence: str) -> None:
    """To stderr, from the first process only: stdout is for what was asked for."""
    if jax.process_index() == 0:
        print(sentence, file=sys.stderr, flush=True)
