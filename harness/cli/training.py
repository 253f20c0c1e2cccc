"""Commands that train: train, resume."""

from pathlib import Path
from typing import Any

import click

from commandline import terminal
from harness.cli.options import Processes, join, machine_options, prepare_jax
from harness.config import Config
from harness.errors import UsageError
from harness.presets import preset
from harness.settings import typed_settings


@click.command()
@click.option("--run", "name", metavar="NAME", help="Name of the run. [default: the preset's name]")
@click.option(
    "--preset",
    "preset_name",
    metavar="P",
    help="Settings to start from; see `harness presets`. [default: pocket]",
)
@click.option("--data", metavar="S", help="pocket, tinystories, or a text or Parquet file.")
@click.option("--tokenizer", metavar="T", help="pocket-2k, gpt2, or hf:DIR.")
@click.option("--steps", type=int, metavar="N", help="Training steps in total.")
@click.option(
    "--pieces",
    "pieces_folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A workspace; train with its pieces.",
)
@machine_options
def train(
    name: str | None, preset_name: str | None, settings: tuple[str, ...], pieces_folder: Path | None, root: Path, quiet: bool,
    coordinator: str | None, processes: int, process: int, **flags: Any,
) -> None:  # fmt: skip
    """Train a model, or resume a run.

    Resumes from the last checkpoint; the result is identical to an uninterrupted run.
    """
    from harness.run.folder import Run

    name = name or preset_name or "pocket"
    if not name or Path(name).name != name or name.startswith("."):
        raise UsageError(f"--run {name} is not valid; the name of a run must not contain slashes or start with a dot.")
    run = Run(root / name)
    # Without a preset, the options change the settings that an existing run already has.
    resumes = run.config_file.exists() and not preset_name
    config = run.config() if resumes else preset(preset_name or "pocket")
    config = config.with_options(typed_settings(settings, flags))
    _train(run, config, pieces_folder, Processes(coordinator, processes, process), quiet=quiet)


@click.command()
@click.argument("run_name", metavar="RUN")
@click.option(
    "--steps", type=int, metavar="N", help="More training steps in total, at the schedule's last learning rate."
)
@machine_options
def resume(
    run_name: str, steps: int | None, settings: tuple[str, ...], root: Path, quiet: bool, coordinator: str | None,
    processes: int, process: int, **flags: Any,
) -> None:  # fmt: skip
    """Resume a run with its own settings.

    Only settings that do not affect the result can change: remat, mesh, fsdp and loss_chunk.
    """
    from harness.run.folder import Run

    run = Run.find(root, run_name)
    config = run.config().with_machine_settings(typed_settings(settings, flags))
    if steps is not None and steps != config.steps:
        config = config.extended(steps)
    _train(run, config, None, Processes(coordinator, processes, process), quiet=quiet)


def _train(run: Any, config: Config, pieces_folder: Path | None, processes: Processes, *, quiet: bool) -> None:
    """Trains a run to its last step, and prints the report and a sample."""
    if processes.number > 1:
        join(processes)
    prepare_jax()
    from harness.pieces.load import load_pieces
    from harness.run.loop import train as run_training
    from harness.run.report import report
    from harness.run.session import load_state, log_to_stderr, open_session, sample_text

    pieces = None
    if pieces_folder is None and config.pieces:
        pieces_folder = run.pieces
    if pieces_folder is not None:
        pieces = load_pieces(pieces_folder)
        for line in pieces.describe():
            log_to_stderr(f"  {line}")
    quiet = quiet or processes.index > 0
    session = open_session(run, config, pieces, log=log_to_stderr, quiet=quiet)
    if not run_training(session, log=log_to_stderr, quiet=quiet):
        return
    if processes.index == 0:
        click.echo(report(session))
        if processes.number == 1:
            step, state = load_state(session)
            click.echo(f"\nA sample from the best checkpoint (step {step}):\n")
            click.echo(sample_text(session, state))
        click.echo()
        terminal.echo(f"More samples: `harness sample {run.folder.name}`")
