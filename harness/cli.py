"""`harness`: the command line. Thin: each command finds what it needs and prints what comes back."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from commandline.commands import Commands
from harness.config import PRESETS, Config, preset
from harness.errors import UsageError


class Harness(Commands):
    """The commands of `harness`."""

    program = "harness"


runs_option = click.option(
    "--runs",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    default="runs",
    show_default=True,
    help="Where runs are kept.",
)


@click.group(cls=Harness, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(package_name="gpt-kata", prog_name="harness")
def main() -> None:
    """Train a small GPT on simple stories, and let it tell some.

    \b
    Train           harness train                     (a few minutes on two cores)
    hear a story    harness sample pocket
    measure it      harness eval pocket
    your own code   harness train --run mine --pieces attempts

    Exit status: 0 done, or stopped and saved; 1 a piece of yours is broken; 2 asked wrongly; 3 our own fault or the machine's.
    """


@main.command()
@click.option("--run", "name", metavar="NAME", help="The run's folder in runs/. [default: the preset's name]")
@click.option(
    "--preset",
    "preset_name",
    metavar="P",
    help="Settings to begin with; `harness presets` lists them. [default: pocket]",
)
@click.option("--data", metavar="S", help="pocket, tinystories, or a text or Parquet file.")
@click.option("--tokenizer", metavar="T", help="pocket-2k or gpt2.")
@click.option("--steps", type=int, metavar="N", help="How many steps in all.")
@click.option("--mesh", metavar="AxB", help="Devices: A share the batch, B share the layers' width, as in 4x2.")
@click.option("--fsdp", is_flag=True, help="Share parameters and moments over the A devices too.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting; may be repeated.")
@click.option(
    "--pieces",
    "pieces_folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A workspace whose pieces to train with.",
)
@click.option("--coordinator", metavar="HOST:PORT", help="For several processes: where the first one listens.")
@click.option("--processes", type=int, default=1, help="How many processes there are in all.")
@click.option("--process", type=int, default=0, help="Which one this is, from 0.")
@click.option("--quiet", is_flag=True, help="No progress.")
@runs_option
def train(
    name: str | None, preset_name: str | None, settings: tuple[str, ...], pieces_folder: Path | None, root: Path, quiet: bool,
    coordinator: str | None, processes: int, process: int, **flags: Any,
) -> None:  # fmt: skip
    """Train a model, or go on with a run that was stopped.

    It goes on from the last checkpoint, whatever stopped it, as if nothing had.
    """
    if processes > 1:
        _join(coordinator, processes, process)
    _prepare_jax()
    from harness.pieces.load import load_pieces
    from harness.run.folder import Run
    from harness.run.loop import report
    from harness.run.loop import train as run_training
    from harness.run.session import load_state, open_session, sample_text, say

    name = name or preset_name or "pocket"
    if not name or Path(name).name != name or name.startswith("."):
        raise UsageError(
            f"--run {name}: a run's name is one folder's name, without slashes and not beginning with a dot."
        )
    run = Run(root / name)
    with_flags = any(value is not None and value is not False for value in flags.values())
    config = preset(preset_name or (run.config().preset if run.config_file.exists() else "pocket"))
    if run.config_file.exists() and not (preset_name or settings or with_flags):
        config = run.config()  # `harness train --run NAME` goes on with whatever the run was made with
    config = with_options(config, settings, flags)
    found = None
    if pieces_folder is None and config.pieces:
        pieces_folder = run.pieces
    if pieces_folder is not None:
        found = load_pieces(pieces_folder)
        for line in found.describe():
            say(f"  {line}")
    session = open_session(run, config, found, say=say, quiet=quiet or process > 0)
    if not run_training(session, say=say, quiet=quiet or process > 0):
        return
    if process == 0:
        click.echo(report(session))
        if processes == 1:
            step, state = load_state(session)
            click.echo(f"\nA sample, from the best checkpoint (step {step}):\n")
            click.echo(sample_text(session, state))
        click.echo(f"\nMore: harness sample {name}")


def with_options(config: Config, settings: tuple[str, ...], flags: dict[str, Any]) -> Config:
    """The config with `--set` settings and the other options put in."""
    typed = {key: str(value) for key, value in flags.items() if value is not None and value is not False}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: write KEY=VALUE, as in --set learning_rate=1e-3.")
        typed[key.strip().replace("-", "_")] = value.strip()
    if (steps := typed.get("steps")) and "warmup_steps" not in typed and steps.isdecimal():
        config = dataclasses.replace(config, steps=max(config.steps, config.warmup_steps + 1))
        typed["warmup_steps"] = str(min(config.warmup_steps, int(steps) // 2))
    return config.with_settings(typed)


def _join(coordinator: str | None, processes: int, process: int) -> None:
    if coordinator is None or ":" not in coordinator:
        raise UsageError("--processes needs --coordinator HOST:PORT, the same in all of them.")
    if not 0 <= process < processes:
        raise UsageError(f"--process {process} must be at least 0 and less than --processes {processes}.")
    import jax

    jax.distributed.initialize(coordinator, num_processes=processes, process_id=process)


def _prepare_jax() -> None:
    """Compiled programs are kept for the next time; nothing of JAX's own chatter reaches the terminal."""
    import logging

    import jax

    from commandline.folders import cache_folder

    logging.getLogger("jax").setLevel(logging.ERROR)
    jax.config.update("jax_compilation_cache_dir", str(cache_folder("HARNESS_CACHE", "harness") / "programs"))


@main.command()
@click.argument("run_name", metavar="RUN")
@click.option("--prompt", help="How the story begins. [default: Once upon a time, there was]")
@click.option("--temperature", type=float, default=0.8, show_default=True, help="0 takes the likeliest token.")
@click.option("--top-k", type=int, default=0, show_default=True, help="Only the K likeliest tokens; 0 for all.")
@click.option(
    "--top-p", type=float, default=0.95, show_default=True, help="Only the likeliest that sum to P; 1 for all."
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("-n", "number", type=click.IntRange(1), default=1, show_default=True, help="How many samples.")
@click.option("--max-tokens", type=int, default=512, show_default=True, help="Where to stop at the latest.")
@click.option("--step", type=int, help="The checkpoint of this step. [default: the best]")
@runs_option
def sample(
    run_name: str, prompt: str | None, temperature: float, top_k: int, top_p: float, seed: int, number: int, max_tokens: int,
    step: int | None, root: Path,
) -> None:  # fmt: skip
    """Let a trained model go on with a text."""
    _prepare_jax()
    from harness.data.tokenizer import get_tokenizer
    from harness.model.sampling import PROMPTS, Sampling, encode_prompt, stream_text
    from harness.run.session import load_state

    sampling = Sampling(temperature, top_k, top_p, seed, max_tokens)
    session = _open(root, run_name)
    _, state = load_state(session, step)
    tokenizer = get_tokenizer(session.config.tokenizer)
    prompt = PROMPTS[session.config.task] if prompt is None else prompt
    ids = encode_prompt(tokenizer, prompt)
    for index in range(number):
        if index:
            click.echo("\n" + "-" * 8)
        click.echo(prompt, nl=False)
        for text in stream_text(tokenizer, session.tokens(state, ids, sampling, index)):
            click.echo(text, nl=False)
            sys.stdout.flush()
        click.echo()


@main.command("eval")
@click.argument("run_name", metavar="RUN")
@click.option("--step", type=int, help="The checkpoint of this step. [default: the best]")
@runs_option
def evaluate(run_name: str, step: int | None, root: Path) -> None:
    """Measure a run: loss and perplexity on the validation data.

    Beside them stand those of a unigram and a bigram model.
    """
    _prepare_jax()
    import math

    import jax

    from harness.data.ngrams import ngram_loss
    from harness.run.session import load_state

    session = _open(root, run_name, eval_batches=0)
    step, state = load_state(session, step)
    with jax.set_mesh(session.mesh):
        loss = session.validate(state)
    held = session.prepared.validation
    click.echo(f"Run {run_name}, step {step}, on {len(held.ends):,} stories of {len(held):,} tokens")
    click.echo(f"  loss        {loss:.4f} nats a token")
    click.echo(f"  perplexity  {math.exp(min(loss, 700)):.3f}")
    if session.config.task == "next":
        ngrams = ngram_loss(session.prepared.train, held, session.config.vocab_size)
        click.echo(f"  bigram      {ngrams.bigram:.4f}")
        click.echo(f"  unigram     {ngrams.unigram:.4f}")


def _open(root: Path, run_name: str, **changes: Any) -> Any:
    """The session of a run that is there, on one device."""
    from harness.pieces.load import load_pieces
    from harness.run.folder import Run
    from harness.run.session import open_session

    run = Run.find(root, run_name)
    config = dataclasses.replace(run.config(), mesh="1x1", fsdp=False, **changes)
    found = load_pieces(run.pieces) if config.pieces else None
    return open_session(run, config, found, say=lambda sentence: None, quiet=False)


@main.command()
@click.argument("run_name", metavar="RUN")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--step", type=int, help="The checkpoint of this step. [default: the best]")
@runs_option
def export(run_name: str, folder: Path, step: int | None, root: Path) -> None:
    """Write the model of a run for other programs.

    Your own export_gpt2, problem 28, does it.
    """
    _prepare_jax()
    from harness.pieces.adapt import export as export_model
    from harness.run.session import load_state

    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty. Name a folder that is not there yet.")
    session = _open(root, run_name)
    if session.pieces is None:
        raise UsageError(
            f"Run {run_name} has the harness's own model. Only your MiniGPT has GPT-2's form: train with --pieces."
        )
    step, state = load_state(session, step)
    export_model(session.config, session.pieces, session.programs.model(state), folder)
    click.echo(f"Run {run_name}, step {step}, is in {folder}.")


@main.command()
@click.argument("source")
@click.option("--tokenizer", default="pocket-2k", show_default=True, help="pocket-2k or gpt2.")
@click.option("--validation", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.02, show_default=True,
              help="Share of the stories kept for validation.")  # fmt: skip
def data(source: str, tokenizer: str, validation: float) -> None:
    """Prepare a data set without training.

    SOURCE is pocket, tinystories, or a file.
    """
    from harness.data.sources import open_source
    from harness.data.token_files import prepare
    from harness.data.tokenizer import get_tokenizer

    prepared = prepare(open_source(source, validation), get_tokenizer(tokenizer))
    for split, tokens in (("train", prepared.train), ("validation", prepared.validation)):
        click.echo(f"{split:<12}{len(tokens.ends):>10,} stories {len(tokens):>14,} tokens")
    click.echo(f"in {prepared.folder}")


@main.command()
def presets() -> None:
    """List the presets, and what each sets."""
    for name, (what, settings) in PRESETS.items():
        click.echo(f"{name}: {what}")
        pairs = " ".join(f"{key}={value}" for key, value in settings.items())
        click.echo(click.wrap_text(pairs, width=78, initial_indent="    ", subsequent_indent="    "))


if __name__ == "__main__":
    main()
