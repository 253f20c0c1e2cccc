"""Commands for data and settings: data, presets, settings."""

import click

from commandline import terminal
from harness.config import PARTS
from harness.presets import PRESETS
from harness.settings import describe


@click.command()
@click.argument("source")
@click.option("--tokenizer", default="pocket-2k", show_default=True, help="pocket-2k, gpt2, or hf:DIR.")
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


@click.command()
def presets() -> None:
    """List the presets and their settings."""
    for name, (description, settings) in PRESETS.items():
        click.echo(f"{name}: {description}")
        pairs = " ".join(f"{key}={value}" for key, value in settings.items())
        click.echo(click.wrap_text(pairs, width=terminal.width(), initial_indent="    ", subsequent_indent="    "))


@click.command("settings")
def list_settings() -> None:
    """List the settings for --set, with their defaults."""
    for line in (line for part in PARTS for line in describe(part)):
        click.echo(click.wrap_text(line, width=terminal.width(), subsequent_indent="    "))
