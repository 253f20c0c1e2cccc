"""Options that several commands have, and what they stand for."""

import dataclasses
from pathlib import Path
from typing import Any

import click

from harness.config import HUGGING_FACE, Config
from harness.errors import UsageError
from harness.processes import Processes

root_option = click.option(
    "--runs",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    default="runs",
    show_default=True,
    help="Directory of all runs.",
)
DATA_HELP = (
    "pocket, arithmetic, tools, tinystories, or a file, folder, pattern or URL of texts; several as in "
    "a.jsonl:0.7,b.txt:0.3."
)
TOKENIZER_HELP = "pocket-2k, gpt2, bytes, a .tiktoken file, hf:DIR, or train:N to train one of N tokens on the data."
field_option = click.option(
    "--field", metavar="F", help="Field of JSON records, or column of CSV and Parquet, with the text. [default: text]"
)
pieces_option = click.option(
    "--pieces", "pieces_folder", type=click.Path(path_type=Path), metavar="DIR", help="A workspace; use its pieces."
)
no_pieces_option = click.option(
    "--no-pieces", is_flag=True, help="Use the harness's own code instead of the run's pieces."
)
_MACHINE_OPTIONS = (
    click.option(
        "--mesh",
        metavar="[Rx]DxM",
        help="Device counts: D split the batch, M the width of the layers; R copies of this. Example: 4x2.",
    ),
    click.option("--fsdp", is_flag=True, help="Shard parameters and moments over the D devices as well."),
    click.option(
        "--log",
        metavar="NAMES",
        help="Trackers, separated by commas: tensorboard, wandb.",
    ),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any setting; see `harness settings`. Repeatable."
    ),
    click.option(
        "--processes",
        metavar="N|auto",
        default="1",
        show_default=True,
        help="Number of processes; auto under SLURM, Open MPI, Kubernetes and on TPU pods.",
    ),
    click.option(
        "--coordinator", metavar="HOST:PORT", help="Address of the first process, unless it is found by auto."
    ),
    click.option("--process", type=int, metavar="I", help="Index of this process, from 0, unless it is found by auto."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
    root_option,
)


def machine_options(command: Any) -> Any:
    """The options that say where a run computes."""
    for option in reversed(_MACHINE_OPTIONS):
        command = option(command)
    return command


# Pieces that take part when a model in Hugging Face's format is sampled
_SAMPLED = (
    "GPT2", "rope", "RMSNorm", "SwiGLU", "GQA", "ModernGPT", "Attention", "moe", "delta_rule", "sampling_distribution",
    "generate",
)  # fmt: skip
step_option = click.option("--step", type=int, help="Checkpoint to use. [default: the best]")


def chart_file(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Returns the value of an option that names a file for a chart. Raises UsageError if the name is of another
    format."""
    if path is not None and path.suffix != ".svg":
        raise UsageError(f"{path} is not valid; charts are SVG: write a name such as {path.with_suffix('.svg')}.")
    return path


def joined(coordinator: str | None, processes: str, process: int | None) -> Processes:
    """The processes that the options name. Raises UsageError if their number is not valid."""
    if processes != "auto" and not (processes.isdecimal() and int(processes)):
        raise UsageError(f"--processes {processes} is not valid; write a number, or auto.")
    return Processes(coordinator, 0 if processes == "auto" else int(processes), process)


def prepare_jax() -> None:
    """Caches compiled programs, and hides what JAX and the storage of checkpoints print themselves.

    Python looks for garbage less often than by default.
    """
    import gc
    import logging
    import warnings

    import jax

    from commandline.folders import cache_folder

    # Imports and traced programs are hundreds of thousands of objects that stay, and that Python looks through again
    # and again.
    gc.set_threshold(10_000, 10, 10)
    logging.getLogger("jax").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a failed save is reported in one sentence
    # Without a cache, programs are compiled again.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    jax.config.update("jax_compilation_cache_dir", str(cache_folder("HARNESS_CACHE", "harness") / "programs"))
    # Also programs that compile quickly: with pieces, a command begins with more than a hundred of them.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def imported(name: str) -> tuple[Path, Config]:
    """The folder of a model in Hugging Face's format, and settings with its model and tokenizer. Raises UsageError."""
    from harness.data.hub import model_folder
    from harness.hugging_face.load import read_config

    folder = model_folder(name).resolve()
    return folder, dataclasses.replace(Config(), preset="", **read_config(folder))


def open_model(
    root: Path, name: str, pieces_folder: Path | None, step: int | None, *, no_pieces: bool = False
) -> tuple[Any, Any, int | None]:
    """The session, the model and the step of a run, or of a model in Hugging Face's format, which has no step; on one
    device.

    Pieces from `pieces_folder` run such a model; a run has its own, unless it is opened with `no_pieces`. Raises
    UsageError for options that do not fit together.
    """
    from harness.run.state import base_model, load_state

    if not name.startswith(HUGGING_FACE):
        if pieces_folder is not None:
            raise UsageError(
                f"--pieces needs a model as {HUGGING_FACE}DIR; the run {name} has its own pieces, or none."
            )
        session = open_run(root, name, no_pieces=no_pieces)
        step, state = load_state(session, step)
        return session, session.functions.model(state), step
    if no_pieces:
        raise UsageError(f"--no-pieces needs a run; {name} has no pieces.")
    if step is not None:
        raise UsageError(f"--step needs a run; {name} has no checkpoints.")
    from harness.pieces.load import load_pieces
    from harness.run.run_session import log_to_stderr

    pieces = None if pieces_folder is None else load_pieces(pieces_folder)
    session = open_imported(name, pieces)
    model = base_model(session)  # before any piece is said to run it: a model may be refused
    if pieces is not None:
        lines = [line for line in pieces.describe(session.config) if line.startswith(_SAMPLED) and ": yours" in line]
        for line in lines or ["None of these pieces is a part of this model."]:
            log_to_stderr(f"  {line}")
    return session, model, None


def open_imported(name: str, pieces: Any = None) -> Any:
    """The session of a model in Hugging Face's format, on one device; nothing is trained. Raises UsageError."""
    from harness.data.dialogues import has_template
    from harness.data.hub import holder
    from harness.presets import unchanged
    from harness.run.folder import Run
    from harness.run.run_session import ignore, open_session

    folder, base = imported(name)
    config = unchanged(base, f"{HUGGING_FACE}{folder}")
    # Also where it is that of GPT-2, which might have to be downloaded
    if (holder(folder, "tokenizer.json") / "tokenizer.json").exists():
        config = dataclasses.replace(config, tokenizer=config.base)
    if has_template(folder):
        config = dataclasses.replace(config, chat=config.base, packing="padded")
    # A folder of a run that there is not.
    return open_session(Run(folder / "untrained"), config, pieces, log=ignore)


def open_run(root: Path, run_name: str, *, no_pieces: bool = False, **changes: Any) -> Any:
    """The session of an existing run, on one device, or with `no_pieces` of the same settings without them."""
    from harness.run.folder import Run
    from harness.run.run_session import ignore, open_session

    run = Run.find(root, run_name)
    config = dataclasses.replace(run.config(), mesh="1x1", fsdp=False, **changes)
    if no_pieces:
        config = dataclasses.replace(config, pieces=())
    instead = "`--no-pieces` uses the harness's own code instead of the pieces."
    return open_session(run, config, pieces_of(run, config, instead=instead), log=ignore)


def pieces_of(run: Any, config: Config, folder: Path | None = None, instead: str = "") -> Any:
    """The pieces of a workspace, by default those that the run has if it was trained with any; None without.

    Raises UsageError if those of the run are not trusted, with the sentence `instead`; UsageError or PieceError as
    `load_pieces` does.
    """
    from harness.pieces.load import load_pieces
    from harness.run.own_code import require_pieces

    if folder is None and config.pieces:
        require_pieces(run, instead)
        folder = run.pieces
    return None if folder is None else load_pieces(folder)
