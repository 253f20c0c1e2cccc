"""Commands for trained models: sample, chat, playground, eval, compare, trust."""

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from commandline import files, terminal
from commandline.text import counted
from harness.cli import stories
from harness.cli.options import (
    DATA_HELP,
    chart_file,
    field_option,
    no_pieces_option,
    open_imported,
    open_model,
    open_run,
    pieces_option,
    prepare_jax,
    root_option,
    step_option,
)
from harness.config import HUGGING_FACE, MESSAGES
from harness.errors import UsageError
from harness.rl_config import CacheConfig
from harness.settings import typed_settings

IMPORTED_ROWS = 8  # of an imported model's context, which are evaluated at a time
_SAMPLING_OPTIONS = (
    click.option("--temperature", type=float, default=0.8, show_default=True, help="0 is greedy."),
    click.option(
        "--top-k", type=int, default=0, show_default=True, help="Sample from the K most likely tokens; 0 for all."
    ),
    click.option(
        "--top-p",
        type=float,
        default=0.95,
        show_default=True,
        help="Sample from the fewest tokens that sum to P; 1 for all.",
    ),
    click.option(
        "--min-p",
        type=float,
        default=0.0,
        show_default=True,
        help="Leave out tokens less than P times as likely as the likeliest; 0 for none.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Random seed."),
    click.option("--stop", "stops", multiple=True, metavar="TEXT", help="End a sample before this text. Repeatable."),
    click.option("--system", metavar="TEXT", help="System message of a model that answers."),
    click.option("--max-tokens", type=int, default=512, show_default=True, help="Maximum length of a sample."),
)


def sampling_options(command: Any) -> Any:
    """The options that say how tokens are chosen."""
    for option in reversed(_SAMPLING_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("run_name", metavar="MODEL")
@click.option(
    "--prompt", help="Beginning of the text. [default: as the run's own text begins, or Once upon a time, there was]"
)
@sampling_options
@click.option("-n", "number", type=click.IntRange(1), default=1, show_default=True, help="Number of samples.")
@step_option
@pieces_option
@no_pieces_option
@root_option
def sample(
    run_name: str,
    prompt: str | None,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int,
    stops: tuple[str, ...],
    system: str | None,
    number: int,
    max_tokens: int,
    step: int | None,
    pieces_folder: Path | None,
    no_pieces: bool,
    root: Path,
) -> None:
    """Continue a prompt with a trained model.

    MODEL is the name or folder of a run, or a model in Hugging Face's format: hf:DIR, or hf:ORG/NAME on the hub.
    --pieces runs such a model with your own code.
    """
    prepare_jax()
    from harness.model.sampling import Sampling, on_length, stream_text
    from harness.run.stop_strings import until

    sampling = Sampling(temperature, top_k, top_p, seed, max_tokens, min_p)
    session, model, _ = open_model(root, run_name, pieces_folder, step, no_pieces=no_pieces)
    tokenizer = session.tokenizer
    prompt = session.prompt if prompt is None else prompt
    ids = session.prompt_ids(prompt, session.system_messages(system))
    if note := on_length(ids, session.config.context):
        terminal.echo(note, err=True)
    alone = number == 1  # shown token by token
    samples = [session.tokens(model, ids, sampling)] if alone else session.samples(model, [ids] * number, sampling)
    answers, length = session.template is not None, 0

    def counted_tokens(tokens: Iterable[int]) -> Iterator[int]:
        nonlocal length
        for length, token in enumerate(tokens, 1):  # noqa: B007
            yield token

    for index, tokens in enumerate(samples):
        if index:
            click.echo("\n" + "-" * 8)
        told = until(stream_text(tokenizer, counted_tokens(tokens)), stops)
        stories.tell(told, prompt, apart=answers)
    ended = [stories.ending(length, max_tokens, "answer" if answers else "story")] if alone else []
    likelier = f"--seed {seed + 1}, --temperature {temperature / 2:g} for likelier words" if temperature else ""
    others = f"Others: {likelier or '--temperature 0.8'}, or the playground of `grade web`."
    stories.close(" ".join([*ended, others]))


@click.command()
@click.argument("run_name", metavar="MODEL")
@sampling_options
@step_option
@pieces_option
@no_pieces_option
@root_option
def chat(
    run_name: str, temperature: float, top_k: int, top_p: float, min_p: float, seed: int, stops: tuple[str, ...],
    system: str | None, max_tokens: int, step: int | None, pieces_folder: Path | None, no_pieces: bool, root: Path,
) -> None:  # fmt: skip
    """Continue prompts that you type, or answer messages.

    MODEL is a run, or hf:DIR or hf:ORG/NAME, as for `harness sample`. It answers if it has learned from dialogues, by
    `finetune --chat`, or has a chat template. Ctrl-C stops a sample, Ctrl-D quits; /help lists the commands.
    """
    prepare_jax()
    from commandline.progress import working
    from harness.model.sampling import Sampling
    from harness.run.chat import Chat, Prompt, greeting
    from harness.run.signals import noted

    sampling = Sampling(temperature, top_k, top_p, seed, max_tokens, min_p)
    session, model, _ = open_model(root, run_name, pieces_folder, step, no_pieces=no_pieces)
    chat = Chat(session, model, sampling, system, stops)
    with working("compiling"):
        chat.warm_up()
    terminal.echo(greeting(session))
    for line in _typed_lines():
        try:
            wrapping = stories.Wrapping()
            with noted(signal.SIGINT) as interrupted:
                for text in chat.answer(line):
                    shown = wrapping.add(text)
                    click.echo(
                        stories.set_off(shown + wrapping.rest()) if isinstance(text, Prompt) else shown, nl=False
                    )
                    sys.stdout.flush()
                    if interrupted:
                        break
            click.echo(wrapping.rest(), nl=False)
            if chat.ended:
                return
        except UsageError as error:
            terminal.echo(str(error), err=True)
            continue
        except KeyboardInterrupt:
            interrupted = [True]
        click.echo()
        if chat.tokens and not interrupted and (not session.template or chat.tokens == max_tokens):
            stories.close(f"{stories.ending(chat.tokens, max_tokens, 'story')} /again writes another one.")


def _typed_lines() -> Iterator[str]:
    """The lines of stdin, up to its end. A terminal has a prompt, a history and keys to edit; Ctrl-C clears its
    line."""
    if not sys.stdin.isatty():
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    from prompt_toolkit import PromptSession

    prompt: PromptSession[str] = PromptSession()
    while True:
        try:
            yield prompt.prompt("> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


@click.command(hidden=True)
@click.argument("run_name", metavar="RUN")
@root_option
def playground(run_name: str, root: Path) -> None:
    """Answer the requests of a studio's playground: lines of JSON on stdin and stdout."""
    prepare_jax()
    from harness.run.playground import answer_requests

    answer_requests(lambda: open_run(root, run_name))


@click.command("eval")
@click.argument("run_name", metavar="MODEL")
@click.option("--data", "spec", metavar="S", help=f"Evaluate on all of other data: {DATA_HELP}")
@field_option
@click.option("--task", metavar="T", help="Measure how many held-out problems are solved: arithmetic, tools, "
              "countdown, gsm8k:FILE.jsonl, or FILE.py.")  # fmt: skip
@click.option("--problems", type=click.IntRange(1), default=200, show_default=True, help="Problems, with --task.")
@click.option("--samples", type=click.IntRange(1), default=8, show_default=True, help="Answers to each problem.")
@click.option("--temperature", type=float, default=1.0, show_default=True, help="Of the answers; 0 is greedy.")
@click.option("--system", metavar="TEXT", help="Text before each question. [default: that of the run]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="A setting of the cache, with --task: cache_blocks, cache_block_size or cache_rows. "
                   "Repeatable.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
@step_option
@no_pieces_option
@root_option
def evaluate(
    run_name: str,
    spec: str | None,
    field: str | None,
    task: str | None,
    problems: int,
    samples: int,
    temperature: float,
    system: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    step: int | None,
    no_pieces: bool,
    root: Path,
) -> None:
    """Evaluate a model: its loss on a text, or the problems it solves.

    A run is evaluated on all of its validation data, or on all of other data with --data; also prints the losses of a
    bigram and a unigram model of its own. With --task, on problems that are held out from training. MODEL may also be
    hf:DIR or hf:ORG/NAME, with --data or --task.
    """
    if task is None and spec is None and run_name.startswith(HUGGING_FACE):
        raise UsageError(f"{run_name} has no data of its own; name a text with --data, or a task with --task.")
    if task is not None:
        if spec or field or as_json:
            raise UsageError("--task needs no --data, no --field and no --json.")
        cache = _cache_settings(settings)
        opened = partial(open_model, root, run_name, None, step, no_pieces=no_pieces)
        _evaluate_task(opened, run_name, task, problems, samples, temperature, system, cache)
        return
    if settings:
        raise UsageError("--set needs --task.")
    if field is not None and spec is None:
        raise UsageError("--field needs --data.")
    prepare_jax()
    import jax

    from harness.run.state import base_state, load_state

    session = _session_to_evaluate(root, run_name, spec, field, step, no_pieces=no_pieces)
    if run_name.startswith(HUGGING_FACE):
        state, named = base_state(session), run_name
    else:
        step, state = load_state(session, step)
        named = f"Run {run_name}, step {step}"
    with jax.set_mesh(session.mesh):
        loss, measured = session.measure(state)
    if as_json:
        data, bits = session.validation, None if session.config.has_pairs else session.bits_per_byte(loss)
        known = {"model": run_name, "step": step, "data": data.name, "tokens": len(data.validation)}
        numbers = {"loss": float(loss), "bits_per_byte": bits, **{key: float(each) for key, each in measured.items()}}
        click.echo(json.dumps({**known, **numbers}))
    elif session.config.has_pairs:
        name = f"{session.validation.name}, " if spec else ""
        click.echo(f"{named}, on {name}{counted(len(session.validation_windows), 'pair')}")
        for key, value in {"loss": loss, **measured}.items():
            click.echo(f"  {key.replace('_', ' '):<17}{value:.4f}")
    else:
        _say_losses(session, named, spec, loss)


def _session_to_evaluate(
    root: Path, run_name: str, spec: str | None, field: str | None, step: int | None, *, no_pieces: bool
) -> Any:
    """The session of a run or of an imported model, on other data if `spec` names some. Prints notes on them."""
    from harness.data.batches import on_tokenizer

    if not run_name.startswith(HUGGING_FACE):
        session = open_run(root, run_name, no_pieces=no_pieces, eval_batches=0)
    elif no_pieces or step is not None:
        raise UsageError(f"--step and --no-pieces need a run; {run_name} is none.")
    else:
        session = open_imported(run_name)
        packing = "padded" if field == MESSAGES else "packed"  # as in a run that is fine-tuned from it
        config = replace(session.config, packing=packing, batch_size=IMPORTED_ROWS, eval_batches=0)
        session = replace(session, config=config)
    if spec is not None:
        session = session.evaluated_on(spec, field or session.config.field)
        data = session.validation
        for note in (*data.notes, *filter(None, [on_tokenizer(session.config, data)])):
            terminal.echo(note, err=True)
    return session


def _say_losses(session: Any, named: str, spec: str | None, loss: float) -> None:
    """Prints the loss on texts, beside those of n-gram models."""
    import math

    from harness.data.sources import is_generated

    tokens, name = session.validation.validation, f"{session.validation.name}, " if spec else ""
    number = len(tokens.ends)
    texts = f"{number:,} stories" if is_generated(spec or session.config.data) else counted(number, "text")
    click.echo(f"{named}, on {name}{texts} of {len(tokens):,} tokens")
    click.echo(f"  loss           {loss:.4f} nats per token")
    click.echo(f"  perplexity     {math.exp(min(loss, 700)):.3f}")
    if (bits := session.bits_per_byte(loss)) is not None:
        click.echo(f"  bits per byte  {bits:.4f}")
    if ngrams := session.ngrams:
        click.echo(f"  bigram         {ngrams.bigram:.4f}")
        click.echo(f"  unigram        {ngrams.unigram:.4f}")


def _cache_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """The settings of the cache as typed. Raises UsageError for others."""
    typed, allowed = typed_settings(settings, {}), [entry.name for entry in fields(CacheConfig)]
    if others := [name for name in typed if name not in allowed]:
        raise UsageError(
            f"--set {others[0]} is not valid; the settings of an evaluation are {', '.join(allowed[:-1])} and "
            f"{allowed[-1]}."
        )
    return typed


def _evaluate_task(
    opened: Callable[[], tuple[Any, Any, int | None]], run_name: str, task: str, problems: int, samples: int,
    temperature: float, system: str | None, cache: dict[str, str],
) -> None:  # fmt: skip
    """Prints pass@k for k = 1, 2, 4, ... up to the number of samples."""
    prepare_jax()
    from harness.run.pass_rate import pass_rates

    session, model, step = opened()
    named = run_name if step is None else f"Run {run_name}, step {step}"
    session = replace(session, config=session.config.with_settings(cache))
    if system is not None:
        session = replace(session, config=replace(session.config, system_prompt=system))
    rates = pass_rates(session, model, task, problems, samples, temperature)
    number, _ = rates.solved_PN.shape
    click.echo(f"{named}, task {task}: {counted(number, 'held-out problem')}, {counted(samples, 'answer')} to each")
    for k in sorted({samples, *(1 << power for power in range(samples.bit_length()))}):
        rate, low, high = rates.at(k)
        click.echo(f"  pass@{k:<9}{rate:7.1%}  ({low:.1%} to {high:.1%})")
    click.echo(f"  length       {rates.length:8.1f} tokens; {rates.overlong:.1%} of the answers are cut off")
    if rates.calls is not None:
        click.echo(f"  calls        {rates.calls:8.2f} of tools in an answer")
    terminal.echo("In parentheses: 95% intervals (Wilson), with the problems as the sample.")


@click.command()
@click.argument("run_names", metavar="RUN RUN...", nargs=-1, required=True)
@click.option("--chart", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.svg",
              callback=chart_file, help="Draw the validation losses of all runs.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@root_option
def compare(run_names: tuple[str, ...], chart: Path | None, as_json: bool, root: Path) -> None:
    """Compare runs: settings that differ, speed, validation losses.

    Runs may still be in progress.
    """
    prepare_jax()
    from harness.run import charts
    from harness.run.compare import BITS, LOSS, table
    from harness.run.compare import compare as compare_runs
    from harness.run.folder import Run

    if len(set(run_names)) < 2:
        raise UsageError("compare needs two or more different runs.")
    runs = [Run.find(root, name) for name in run_names]
    comparison = compare_runs(runs)
    click.echo(json.dumps(comparison, indent=1) if as_json else table(comparison))
    for note in () if as_json else comparison["notes"]:
        terminal.echo(f"\n{note}")
    if chart is not None:
        units = {LOSS: "validation loss (nats per token)", BITS: "validation loss (bits per byte)"}
        key = BITS if "tokenizer" in comparison["settings"] else LOSS
        metrics = {str(run.folder): run.metrics() for run in runs}
        files.write(chart, charts.comparison(metrics, key, units[key]))


@click.command()
@click.argument("run_name", metavar="RUN")
@root_option
def trust(run_name: str, root: Path) -> None:
    """Let the code of a run from another machine run on this one.

    A run brings its pieces and the program of its reward, if it has any. They run with your permissions, so read them
    first. Code of runs that you trained here is trusted; so is any copy of it. A file that changes is refused again.
    """
    from harness.run.folder import Run
    from harness.run.own_code import described, trust_pieces, trust_reward

    run = Run.find(root, run_name)
    config = run.config()
    found = (trust_pieces(run) if config.pieces else None, trust_reward(run, config))
    for code in filter(None, found):
        if not code.is_remembered:
            raise UsageError("The cache folder cannot be written. Set GRADE_CACHE to a folder that you can write.")
        terminal.echo(f"Trusted: {described(code)}.")
    if not any(found):
        terminal.echo(f"The run {run.folder} has no code.")
