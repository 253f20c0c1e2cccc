"""The `harness` command. Each subcommand calls the other modules and prints the result."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from commandline import terminal
from commandline.commands import Commands
from harness.config import PARTS, Config
from harness.errors import UsageError
from harness.presets import PRESETS, preset
from harness.settings import describe, typed_settings


class Harness(Commands):
    """The commands of `harness`."""

    program = "harness"


root_option = click.option(
    "--runs",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    default="runs",
    show_default=True,
    help="Directory of all runs.",
)
_MACHINE_OPTIONS = (
    click.option(
        "--mesh", metavar="DxM", help="Device counts: D split the batch, M the width of the layers. Example: 4x2."
    ),
    click.option("--fsdp", is_flag=True, help="Shard parameters and moments over the D devices as well."),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any setting; see `harness settings`. Repeatable."
    ),
    click.option("--coordinator", metavar="HOST:PORT", help="Address of the first process, if there are several."),
    click.option("--processes", type=int, default=1, help="Number of processes."),
    click.option("--process", type=int, default=0, help="Index of this process, from 0."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
    root_option,
)


def machine_options(command: Any) -> Any:
    """The options that say where a run computes."""
    for option in reversed(_MACHINE_OPTIONS):
        command = option(command)
    return command


step_option = click.option("--step", type=int, help="Checkpoint to use. [default: the best]")


@click.group(cls=Harness, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(package_name="gpt-kata", prog_name="harness")
def main() -> None:
    """Train a small GPT on simple stories, and generate stories with it.

    \b
    Train             harness train                  (a few minutes on 2 cores)
    Generate a story  harness sample pocket
    Evaluate          harness eval pocket
    Use your code     harness train --run mine --pieces attempts

    Exit codes: 0 finished, or stopped with a checkpoint; 1 a piece is broken; 2 usage error; 3 internal error;
    130 after a second Ctrl-C.
    """


@main.command()
@click.option("--run", "name", metavar="NAME", help="Name of the run. [default: the preset's name]")
@click.option(
    "--preset",
    "preset_name",
    metavar="P",
    help="Settings to start from; see `harness presets`. [default: pocket]",
)
@click.option("--data", metavar="S", help="pocket, tinystories, or a text or Parquet file.")
@click.option("--tokenizer", metavar="T", help="pocket-2k or gpt2.")
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
    _train(run, config, pieces_folder, _Processes(coordinator, processes, process), quiet=quiet)


@main.command()
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
    _train(run, config, None, _Processes(coordinator, processes, process), quiet=quiet)


@dataclasses.dataclass(frozen=True)
class _Processes:
    """The processes that train together: the address of the first, their number, and the index of this one."""

    coordinator: str | None
    number: int
    index: int


def _train(run: Any, config: Config, pieces_folder: Path | None, processes: _Processes, *, quiet: bool) -> None:
    """Trains a run to its last step, and prints the report and a sample."""
    if processes.number > 1:
        _join(processes)
    _prepare_jax()
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


def _join(processes: _Processes) -> None:
    """Connects this process to the others. Raises UsageError if the options do not fit together."""
    if processes.coordinator is None or ":" not in processes.coordinator:
        raise UsageError("--processes needs --coordinator HOST:PORT, with the same address for all processes.")
    if not 0 <= processes.index < processes.number:
        raise UsageError(f"--process {processes.index} is not valid; it must be from 0 to {processes.number - 1}.")
    import jax

    jax.distributed.initialize(processes.coordinator, num_processes=processes.number, process_id=processes.index)


def _prepare_jax() -> None:
    """Caches compiled programs, and hides JAX's own log."""
    import logging

    import jax

    from commandline.folders import cache_folder

    logging.getLogger("jax").setLevel(logging.ERROR)
    jax.config.update("jax_compilation_cache_dir", str(cache_folder("HARNESS_CACHE", "harness") / "programs"))


@main.command()
@click.argument("run_name", metavar="RUN")
@click.option("--prompt", help="Beginning of the story. [default: Once upon a time, there was]")
@click.option("--temperature", type=float, default=0.8, show_default=True, help="0 is greedy.")
@click.option(
    "--top-k", type=int, default=0, show_default=True, help="Sample from the K most likely tokens; 0 for all."
)
@click.option(
    "--top-p",
    type=float,
    default=0.95,
    show_default=True,
    help="Sample from the fewest tokens that sum to P; 1 for all.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option("-n", "number", type=click.IntRange(1), default=1, show_default=True, help="Number of samples.")
@click.option("--max-tokens", type=int, default=512, show_default=True, help="Maximum length of a sample.")
@step_option
@root_option
def sample(
    run_name: str, prompt: str | None, temperature: float, top_k: int, top_p: float, seed: int, number: int, max_tokens: int,
    step: int | None, root: Path,
) -> None:  # fmt: skip
    """Continue a prompt with a trained model."""
    _prepare_jax()
    from harness.data.tokenizer import get_tokenizer
    from harness.model.sampling import PROMPTS, Sampling, encode_prompt, stream_text
    from harness.run.session import load_state

    sampling = Sampling(temperature, top_k, top_p, seed, max_tokens)
    session = _open(root, run_name)
    _, state = load_state(session, step)
    tokenizer = get_tokenizer(session.config.tokenizer)
    prompt = PROMPTS[session.config.objective] if prompt is None else prompt
    ids = encode_prompt(tokenizer, prompt)
    for index in range(number):
        if index:
            click.echo("\n" + "-" * 8)
        click.echo(prompt, nl=False)
        for text in stream_text(tokenizer, session.tokens(state, ids, sampling, index)):
            click.echo(text, nl=False)
            sys.stdout.flush()
        click.echo()


@main.command(hidden=True)
@click.argument("run_name", metavar="RUN")
@root_option
def playground(run_name: str, root: Path) -> None:
    """Answer the requests of a studio's playground: lines of JSON on stdin and stdout."""
    _prepare_jax()
    from harness.run.playground import answer_requests

    answer_requests(lambda: _open(root, run_name))


@main.command("eval")
@click.argument("run_name", metavar="RUN")
@step_option
@root_option
def evaluate(run_name: str, step: int | None, root: Path) -> None:
    """Evaluate a run: loss and perplexity on all validation data.

    Also prints the losses of a bigram and a unigram model.
    """
    _prepare_jax()
    import math

    import jax

    from harness.run.session import load_state

    session = _open(root, run_name, eval_batches=0)
    step, state = load_state(session, step)
    with jax.set_mesh(session.mesh):
        loss = session.validate(state)
    validation = session.prepared.validation
    click.echo(f"Run {run_name}, step {step}, on {len(validation.ends):,} stories of {len(validation):,} tokens")
    click.echo(f"  loss        {loss:.4f} nats per token")
    click.echo(f"  perplexity  {math.exp(min(loss, 700)):.3f}")
    if ngrams := session.ngrams:
        click.echo(f"  bigram      {ngrams.bigram:.4f}")
        click.echo(f"  unigram     {ngrams.unigram:.4f}")


def _open(root: Path, run_name: str, **changes: Any) -> Any:
    """The session of an existing run, on one device."""
    from harness.pieces.load import load_pieces
    from harness.run.folder import Run
    from harness.run.session import ignore, open_session

    run = Run.find(root, run_name)
    config = dataclasses.replace(run.config(), mesh="1x1", fsdp=False, **changes)
    pieces = load_pieces(run.pieces) if config.pieces else None
    return open_session(run, config, pieces, log=ignore)


@main.command()
@click.argument("run_name", metavar="RUN")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@step_option
@root_option
def export(run_name: str, folder: Path, step: int | None, root: Path) -> None:
    """Write a run's model to FOLDER in Hugging Face GPT-2 format.

    Uses your export_gpt2 from problem 28.
    """
    _prepare_jax()
    from harness.pieces.assemble import export_model
    from harness.run.session import load_state

    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a new folder.")
    session = _open(root, run_name)
    if session.pieces is None:
        raise UsageError(
            f"Run {run_name} uses the harness's own model, which has no export. Train your MiniGPT with --pieces."
        )
    step, state = load_state(session, step)
    export_model(session.config, session.pieces, session.functions.model(state), folder)
    click.echo(f"Exported run {run_name}, step {step}, to {folder}.")


@main.command()
@click.argument("source")
@click.option("--tokenizer", default="pocket-2k", show_default=True, help="pocket-2k or gpt2.")
@click.option("--validation-fraction", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.02,
              show_default=True, help="Fraction of the stories held out for validation.")  # fmt: skip
def data(source: str, tokenizer: str, validation_fraction: float) -> None:
    """Tokenize a data set without training.

    SOURCE is pocket, tinystories, or a text or Parquet file.
    """
    from harness.data.sources import open_source
    from harness.data.token_files import prepare
    from harness.data.tokenizer import get_tokenizer

    prepared = prepare(open_source(source, validation_fraction), get_tokenizer(tokenizer))
    for split, tokens in (("train", prepared.train), ("validation", prepared.validation)):
        click.echo(f"{split:<12}{len(tokens.ends):>10,} stories {len(tokens):>14,} tokens")
    click.echo(f"Token files: {prepared.folder}")


@main.command()
def presets() -> None:
    """List the presets and their settings."""
    for name, (description, settings) in PRESETS.items():
        click.echo(f"{name}: {description}")
        pairs = " ".join(f"{key}={value}" for key, value in settings.items())
        click.echo(click.wrap_text(pairs, width=terminal.width(), initial_indent="    ", subsequent_indent="    "))


@main.command("settings")
def list_settings() -> None:
    """List the settings for --set, with their defaults."""
    for line in (line for part in PARTS for line in describe(part)):
        click.echo(click.wrap_text(line, width=terminal.width(), subsequent_indent="    "))


if __name__ == "__main__":
    main()
