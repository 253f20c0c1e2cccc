"""The state of a run: at its start, and from a checkpoint. It starts from random parameters, or from those of a
base."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from harness.config import HUGGING_FACE, Config
from harness.data.hub import model_folder
from harness.data.tokenizer import TOKENIZERS, get_tokenizer
from harness.errors import HarnessError, UsageError
from harness.hugging_face.layouts import GPT2
from harness.hugging_face.load import Parameters as FolderParameters
from harness.hugging_face.load import read_config
from harness.model import lora
from harness.model_config import ModelConfig
from harness.pieces.assemble import other_model
from harness.pieces.imported_weights import for_pieces
from harness.pieces.load import Pieces, attribute_errors_to
from harness.pieces.model_pieces import OF_TODAY, of_llamas_kind
from harness.run.folder import BaseRecord, Run
from harness.run.run_session import Session, ignore, open_session, sample_text
from harness.training.checkpoint import (
    Checkpointer,
    best_step,
    checksums,
    digest,
    digest_of,
    is_abstract,
    last_good_step,
)
from harness.training.sharding import AVERAGE, by_dotted_name, path_names

OPTIMIZER = "1"  # the index of the optimizer in a state; all else are models
Find = Callable[[str], Any]  # an array of a base by its dotted name; None if there is none


def initial_state(session: Session) -> tuple[Any, BaseRecord | None]:
    """The state at step 0: random, or for fine-tuning with the parameters of the base, and which base that was.

    Raises UsageError if there is no such base, or if its model has other settings.
    """
    functions = session.functions
    if not session.config.base:
        return functions.init(), None
    adapters = by_dotted_name(nnx.state(functions.model(functions.abstract_state), nnx.LoRAParam))
    of_base = {
        name
        for name in by_dotted_name(functions.abstract_state)
        if not name.startswith(f"{OPTIMIZER}.") and name.partition(".")[2] not in adapters
    }
    return _from_base(session, functions.init(without=frozenset(of_base)))


def completed(session: Session, state: Any) -> Any:
    """A restored state, with the parameters of the base where a checkpoint of adapters holds none.

    Raises UsageError, naming the base, if it is missing or has changed.
    """
    if not any(
        is_abstract(leaf)
        for name, leaf in by_dotted_name(state).items()
        if name.startswith(session.functions.evaluated_names)
    ):
        return state
    return _from_base(session, state)[0]


def _from_base(session: Session, state: Any) -> tuple[Any, BaseRecord]:
    """The state with the base's parameters in place of the models' abstract leaves, and which base that was.

    Raises UsageError if there is no such base, or if it is not the recorded one.
    """
    name, recorded = session.config.base, session.run.base()
    load = _load_folder if name.startswith(HUGGING_FACE) else _load_run
    placed, sums = {}, {}
    try:
        base, record = load(session, recorded and recorded.step)
        for path, array in _placed(name, base, state):
            placed[path] = array
            if record is None:  # one by one: it takes as much memory as the array
                sums[_base_name(path)] = jax.device_get(checksums({"": array})[""])
    except UsageError as error:
        if recorded is None:
            raise
        raise UsageError(f"Run {session.run.folder} needs its base {name}. {error}") from error
    record = record or BaseRecord(0, digest_of(sums))
    if recorded not in (None, record):
        raise UsageError(
            f"The base {name} of run {session.run.folder} has changed. Put the former one back, or start another run "
            "with --run NAME."
        )
    return jax.tree_util.tree_map_with_path(lambda path, leaf: placed.get(path, leaf), state), record


def _base_name(path: Any) -> str:
    """The dotted name in the base of the array at a path of the state."""
    return ".".join(lora.base_path(path_names(path)[1:]))


def _placed(name: str, base: Find, state: Any) -> Iterator[tuple[Any, jax.Array]]:
    """The arrays of the base, where the abstract leaves of the state are to be, with their paths.

    The largest come first: while one is read, the host holds it, too, and by then little else.
    """
    leaves = [
        (path, leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if is_abstract(leaf) and path_names(path)[0] != OPTIMIZER
    ]
    for path, leaf in sorted(leaves, key=lambda item: -item[1].size):
        yield path, _placed_leaf(name, base, path, leaf)


def _placed_leaf(name: str, base: Find, path: Any, leaf: Any) -> jax.Array:
    array = base(_base_name(path))
    if array is None or array.shape != leaf.shape:
        base_has = "no such array" if array is None else f"shape {array.shape}"
        raise UsageError(
            f"base={name} does not fit: {'.'.join(path_names(path)[1:])} has shape {leaf.shape} in this model and "
            f"{base_has} in the base."
        )
    # The average is an array of its own, or a step could not donate both.
    alias = path_names(path)[0] != str(AVERAGE)
    return jax.block_until_ready(jax.device_put(array, leaf.sharding, may_alias=alias))


def _load_run(session: Session, step: int | None) -> tuple[Find, BaseRecord]:
    """The parameters of a run at a step, by default that of its best checkpoint, with its adapters merged."""
    config = session.config
    run = Run.find(session.run.folder.parent, config.base)
    base = dataclasses.replace(
        run.config(),
        mesh=config.mesh,  # that of this run, so that no device ever holds the whole base
        fsdp=config.fsdp,
        batch_size=config.batch_size,
        grad_accumulation_steps=config.grad_accumulation_steps,
        reward="",  # whose rules on the batch need not hold
    )
    if bool(base.pieces) != bool(session.pieces):
        raise UsageError(
            f"base={config.base} was trained {'with' if base.pieces else 'without'} pieces; "
            f"{'pass its workspace with --pieces' if base.pieces else 'omit --pieces'}."
        )
    if session.pieces is not None and (conflict := other_model(config, base, session.pieces)):
        raise UsageError(f"base={config.base} has another model than this run: {conflict}.")
    base_session = open_session(run, base, session.pieces, log=ignore, quiet=True)
    step, state = load_state(base_session, step)
    prefix = base_session.functions.evaluated_names
    leaves = {name: leaf for name, leaf in by_dotted_name(state).items() if name.startswith(prefix)}
    record = BaseRecord(step, digest(leaves))
    model = base_session.functions.model(state)
    if base.lora_rank:
        model = lora.merge_adapters(model, *filter(None, [base_session.piece_by_name.get("merge")]))
    return by_dotted_name(nnx.state(model)).get, record


def _load_folder(session: Session, step: int | None) -> tuple[Find, None]:
    """The parameters of a folder in Hugging Face's format, which are read one by one. It has one step only, 0.

    Raises UsageError if the run has other settings of the model, another tokenizer, or pieces that do not fit it.
    """
    config, folder = session.config, model_folder(session.config.base)
    settings = read_config(folder)
    tokenizer = settings.pop("tokenizer", config.tokenizer)
    base = ModelConfig(**settings)
    same = [name for name in vars(base) if name not in ("init", "dropout", "dtype", "remat", "vocab_multiple")]
    if base.positions == "rope" and config.context < base.context:
        same.remove("context")  # nothing depends on it
    other = {name: getattr(base, name) for name in same if getattr(base, name) != getattr(config, name)}
    names = [name if name in TOKENIZERS else get_tokenizer(name).name for name in (tokenizer, config.tokenizer)]
    if names[0] != names[1]:
        other["tokenizer"] = tokenizer
    if other:
        needed = " ".join(f"--set {name}={value}" for name, value in other.items())
        raise UsageError(f"The model of base={config.base} has other settings. Add {needed}.")
    parameters = FolderParameters(folder, config.vocab_rows)
    if not session.pieces:
        return parameters.get, None
    if session.pieces.uses("GPT2", config):
        return _loaded_by_piece(session.pieces, config, parameters.tensors()), None
    if not of_llamas_kind(config) and not any(session.pieces.uses(name, config) for name in OF_TODAY):
        raise UsageError(
            "Pieces are parts of models of Llama's kind, with RMSNorm, SwiGLU and rotary positions, those of problems "
            "71, 73 and 74 where they fit, or the GPT2 and load_gpt2 of problem 41 for a GPT-2 with a tied head. "
            f"base={config.base} is something else; omit --pieces."
        )
    return for_pieces(parameters, config.vocab_size), None


def origin(run: Run, config: Config, log: Callable[[str], None]) -> FolderParameters | None:
    """The model in Hugging Face's format that a run was trained from, perhaps by way of other runs. None if there is
    none, or, with a sentence, if its folder is gone or has changed."""
    named = config
    while named.base and not named.base.startswith(HUGGING_FACE):
        try:
            named = Run.find(run.folder.parent, named.base).config()
        except UsageError:  # the run is gone; its tokenizer leads to the folder
            named = dataclasses.replace(named, base=named.tokenizer if named.tokenizer.startswith(HUGGING_FACE) else "")
    if not named.base:
        return None
    try:
        found = FolderParameters(model_folder(named.base))
    except UsageError as error:
        log(f"{error} The export has none of its files, and is in float32.")
        return None
    settings = {name: value for name, value in found.settings.items() if name != "context"}
    if dataclasses.replace(config.model, **settings) != config.model:
        log(f"{named.base} is not the model that the run was trained from. The export has none of its files.")
        return None
    return found


def _loaded_by_piece(pieces: Pieces, config: Config, tensors: dict[str, np.ndarray]) -> Find:
    """The parameters of the learner's GPT2, into which the piece `load_gpt2` has copied the tensors of a file."""
    positions = f"{GPT2.prefix}wpe.weight"  # the model of a run has one position more, whose logits count nowhere
    tensors[positions] = np.pad(tensors[positions], ((0, 1), (0, 0)))

    def loaded() -> Any:
        model = pieces.adapted("GPT2", config)(nnx.Rngs(config.seed))
        pieces.by_name["load_gpt2"](tensors, model)
        return model

    model = attribute_errors_to(pieces, loaded)
    return by_dotted_name(nnx.state(model, nnx.Param)).get


def base_state(session: Session) -> Any:
    """The state that a run of this session would start from; the optimizer's arrays have shapes only. Raises UsageError
    as `initial_state` does."""
    return completed(session, session.functions.abstract_state)


def base_model(session: Session) -> Any:
    """The model of `base_state`."""
    return session.functions.model(base_state(session))


def load_state(session: Session, step: int | None = None) -> tuple[int, Any]:
    """The step and the state of the best checkpoint, or of that at `step`. Optimizer arrays have shapes only.

    Raises UsageError if there is no such checkpoint, HarnessError if it is corrupt.
    """
    checkpointer = session.checkpointer(read_only=True)
    try:
        chosen = _chosen(session, checkpointer, step)
        with jax.set_mesh(session.mesh):  # a run that starts from this one may have set another
            restored = checkpointer.restore(
                chosen, session.functions.abstract_state, only=session.functions.evaluated_names
            )
    except ValueError as error:
        if session.pieces is None and session.run.config().pieces:
            raise UsageError(
                f"The run {session.run.folder} cannot be opened without its pieces: they are its model, or wrote its "
                "checkpoints."
            ) from error
        raise HarnessError(f"The checkpoint of step {chosen} of {session.run.folder} is corrupt: {error}.") from error
    finally:
        checkpointer.close()
    return restored.step, completed(session, restored.state)


def best_sample(session: Session) -> tuple[int, str]:
    """The step of the best checkpoint, and its sample, which training has written unless samples have an interval of
    their own.

    Raises UsageError if there is no checkpoint, HarnessError if it is corrupt.
    """
    checkpointer = session.checkpointer(read_only=True)
    try:
        step = _chosen(session, checkpointer, None)
    finally:
        checkpointer.close()
    written = session.run.sample_file(step)
    if written.is_file():
        return step, written.read_bytes().decode().removesuffix("\n")
    _, state = load_state(session, step)
    return step, sample_text(session, session.functions.model(state))


def written_sample(run: Run) -> tuple[int, str] | None:
    """The sample written after the step with the best validation loss, and that step; None if there is none.

    One of several processes can open no checkpoint: that takes all of them.
    """
    losses = {entry["step"]: entry["validation_loss"] for entry in run.metrics()}
    written = {step: loss for step, loss in losses.items() if loss is not None and run.sample_file(step).is_file()}
    step = best_step(written)
    return None if step is None else (step, run.sample_file(step).read_text("utf-8").removesuffix("\n"))


def _chosen(session: Session, checkpointer: Checkpointer, step: int | None) -> int:
    """The step itself, or that of the best checkpoint. Raises UsageError if there is no such checkpoint."""
    steps = checkpointer.losses()
    # Rewards are paid for in validation loss, so the last checkpoint of reinforcement learning is its best.
    best = last_good_step if session.config.reward else best_step
    chosen = best(steps) if step is None else step
    if chosen is None or chosen not in steps:
        missing = "checkpoint" if step is None else f"checkpoint of step {step}"
        hint = f"Existing steps: {', '.join(map(str, steps))}." if steps else "Train it first."
        raise UsageError(f"Run {session.run.folder} has no {missing}. {hint}")
    return chosen
