"""Commands for data and settings: data, tokenizer, presets, settings."""

import time
from pathlib import Path

import click

from commandline import terminal
from harness.config import PARTS
from harness.errors import HarnessError, UsageError
from harness.presets import PRESETS
from harness.settings import describe


@click.command()
@click.argument("source")
@click.option(
    "--tokenizer", default="pocket-2k", show_default=True, help="pocket-2k, gpt2, a .tiktoken file, or hf:DIR."
)
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


@click.group()
def tokenizer() -> None:
    """Train tokenizers."""


@tokenizer.command("train")
@click.argument("source")
@click.option("--vocab", type=click.IntRange(257, 1 << 16), default=4096, show_default=True,
              help="Tokens, including the 256 bytes and <|endoftext|>.")  # fmt: skip
@click.option(
    "--to", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="File to write; must end in .tiktoken. [default: SOURCE-VOCAB.tiktoken]",
)  # fmt: skip
def _train_tokenizer(source: str, vocab: int, file: Path | None) -> None:
    """Train a byte-pair tokenizer on a data set.

    SOURCE is pocket, tinystories, or a text or Parquet file. Use the tokenizer with `harness train --tokenizer FILE`.
    """
    from commandline.files import write
    from commandline.progress import working
    from harness.data.sources import open_source
    from harness.data.tokenizer import FILE_SUFFIX, TOKENIZERS, get_tokenizer
    from harness.data.train_tokenizer import file_lines

    file = file or Path(f"{Path(source).stem.replace(':', '-')}-{vocab}{FILE_SUFFIX}")
    if file.suffix != FILE_SUFFIX:
        raise UsageError(f"--to {file} is not valid; the name of a tokenizer must end in {FILE_SUFFIX}.")
    if file.exists():
        raise UsageError(f"{file} already exists; choose another file with --to.")
    stories = open_source(source, validation_fraction=0.02)
    started = time.perf_counter()
    with working(f"training on {stories.name}"):
        lines = file_lines((text for in_validation, text in stories.read() if not in_validation), vocab)
    seconds = time.perf_counter() - started
    write(file, "".join(lines))
    held_out = [text for in_validation, text in stories.read() if in_validation]
    size = sum(len(text.encode()) for text in held_out)
    click.echo(f"{file}: {len(lines) + 1:,} tokens, trained in {seconds:.1f} s")
    if len(lines) + 1 < vocab:
        terminal.echo(
            f"After {len(lines) + 1:,} tokens each word of {stories.name} is one token, so there are no more."
        )
    click.echo(f"Bytes per token on {size:,} bytes of held-out text:")
    for name in (str(file), *TOKENIZERS):
        try:
            encoding = get_tokenizer(name)
        except HarnessError:  # GPT-2's, without a network
            continue
        tokens = sum(map(len, encoding.encode_ordinary_batch(held_out)))
        click.echo(f"  {name:<28}{encoding.n_vocab:>8,} tokens {size / max(tokens, 1):>6.2f}")


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
