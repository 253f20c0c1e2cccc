"""Commands for trained models: sample, playground, eval, export."""

import sys
from pathlib import Path

import click

from harness.cli.options import open_run, prepare_jax, root_option, step_option
from harness.errors import UsageError


@click.command()
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
    prepare_jax()
    from harness.data.tokenizer import get_tokenizer
    from harness.model.sampling import PROMPTS, Sampling, encode_prompt, stream_text
    from harness.run.session import load_state

    sampling = Sampling(temperature, top_k, top_p, seed, max_tokens)
    session = open_run(root, run_name)
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


@click.command(hidden=True)
@click.argument("run_name", metavar="RUN")
@root_option
def playground(run_name: str, root: Path) -> None:
    """Answer the requests of a studio's playground: lines of JSON on stdin and stdout."""
    prepare_jax()
    from harness.run.playground import answer_requests

    answer_requests(lambda: open_run(root, run_name))


@click.command("eval")
@click.argument("run_name", metavar="RUN")
@step_option
@root_option
def evaluate(run_name: str, step: int | None, root: Path) -> None:
    """Evaluate a run: loss and perplexity on all validation data.

    Also prints the losses of a bigram and a unigram model.
    """
    prepare_jax()
    import math

    import jax

    from harness.run.session import load_state

    session = open_run(root, run_name, eval_batches=0)
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


@click.command()
@click.argument("run_name", metavar="RUN")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option("--to", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), help="New folder for the model.")
@step_option
@root_option
def export(run_name: str, folder: Path | None, to: Path | None, step: int | None, root: Path) -> None:
    """Write a run's model and tokenizer to a new folder that transformers loads.

    The layout is that of GPT-2 (positions=learned), GPT-NeoX (rope) or Llama (rope and rmsnorm). Adapters are merged. A run
    with pieces uses your export_gpt2 from problem 28 instead.
    """
    prepare_jax()
    from commandline.files import new_folder
    from harness.hugging_face.export import find_layout, write_model
    from harness.pieces.assemble import export_model
    from harness.run.session import load_state

    target = to or folder
    if target is None or (to and folder):
        raise UsageError(f"Name one folder to export to, as in `harness export {run_name} --to DIR`.")
    session = open_run(root, run_name)
    config, pieces = session.config, session.pieces
    layout = "" if pieces else f" in {find_layout(config).title} layout"
    step, state = load_state(session, step)
    model = session.functions.model(state)
    with new_folder(target) as unfinished:
        if pieces:
            export_model(config, pieces, model, unfinished)
        else:
            write_model(config, model, unfinished)
    click.echo(f"Exported run {run_name}, step {step}, to {target}{layout}.")
