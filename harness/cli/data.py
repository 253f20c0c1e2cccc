"""Commands for data and settings: data, tokenizer, presets, settings."""

import time
from collections.abc import Iterator
from pathlib import Path

import click

from commandline import terminal
from harness.cli.options import TOKENIZER_HELP, field_option
from harness.config import PARTS, DataConfig
from harness.errors import HarnessError, UsageError
from harness.presets import PRESETS
from harness.settings import describe


@click.command()
@click.argument("source")
@field_option
@click.option("--tokenizer", default="pocket-2k", show_default=True, help=TOKENIZER_HELP)
@click.option("--validation-fraction", default="0.02", show_default=True, metavar="X",
              help="Fraction of the tokens held out for validation.")  # fmt: skip
def data(source: str, **flags: str | None) -> None:
    """Tokenize a data set without training.

    SOURCE is pocket, tinystories, or a file, folder, pattern or URL of texts.
    """
    from harness.data.prepared import open_sources, prepare_all
    from harness.data.token_files import prepare
    from harness.data.tokenizer import get_tokenizer
    from harness.data.train_tokenizer import file_of

    config = DataConfig(data=source).with_settings({key: value for key, value in flags.items() if value is not None})
    tokenizer = get_tokenizer(str(file_of(config) or config.tokenizer))
    prepared = prepare_all(config, open_sources(config), lambda each: prepare(each, tokenizer))
    for part in prepared.parts or (prepared,):
        for split, tokens in (("train", part.train), ("validation", part.validation)):
            click.echo(f"{split:<12}{len(tokens.ends):>10,} stories {len(tokens):>14,} tokens")
        click.echo(f"{'bytes per token':<16}{part.bytes_per_token:>6.2f}")
        click.echo(f"Token files: {part.folder}")
        for note in part.notes:
            terminal.echo(note)


@click.group()
def tokenizer() -> None:
    """Train tokenizers."""


@tokenizer.command("train")
@click.argument("source")
@field_option
@click.option("--vocab", type=click.IntRange(257, 1 << 20), default=4096, show_default=True,
              help="Tokens, including the 256 bytes and <|endoftext|>.")  # fmt: skip
@click.option(
    "--to", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="File to write; must end in .tiktoken. [default: SOURCE-VOCAB.tiktoken]",
)  # fmt: skip
def _train_tokenizer(source: str, field: str | None, vocab: int, file: Path | None) -> None:
    """Train a byte-pair tokenizer on a data set.

    SOURCE is pocket, tinystories, or a file, folder, pattern or URL of texts. Use the tokenizer with
    `harness train --tokenizer FILE`.
    """
    from commandline.files import write
    from commandline.progress import working
    from harness.data.formats import Seen
    from harness.data.prepared import open_sources
    from harness.data.tokenizer import FILE_SUFFIX, TOKENIZERS, get_tokenizer
    from harness.data.train_tokenizer import file_lines, held_out

    file = file or Path(f"{Path(source).stem.replace(':', '-')}-{vocab}{FILE_SUFFIX}")
    if file.suffix != FILE_SUFFIX:
        raise UsageError(f"--to {file} is not valid; the name of a tokenizer must end in {FILE_SUFFIX}.")
    if file.exists():
        raise UsageError(f"{file} already exists; choose another file with --to.")
    sources = open_sources(DataConfig(data=source, field=field or DataConfig.field))
    name = ", ".join(each.name for each in sources)

    def texts(*, validation: bool) -> Iterator[str]:
        for each in sources:
            yield from held_out(each.read(Seen()), validation=validation)

    started = time.perf_counter()
    with working(f"training on {name}"):
        lines = file_lines(texts(validation=False), vocab)
    seconds = time.perf_counter() - started
    measured, where = list(texts(validation=True)), "held-out text"
    if not measured:
        measured, where = list(texts(validation=False)), "text, none of it held out"
    if not measured:
        raise UsageError(f"{name} contains no text.")
    write(file, "".join(lines))
    size = sum(len(text.encode()) for text in measured)
    click.echo(f"{file}: {len(lines) + 1:,} tokens, trained in {seconds:.1f} s")
    if len(lines) + 1 < vocab:
        terminal.echo(f"After {len(lines) + 1:,} tokens each word of {name} is one token, so there are no more.")
    click.echo(f"Bytes per token on {size:,} bytes of {where}:")
    for shown in (str(file), *TOKENIZERS):
        try:
            encoding = get_tokenizer(shown)
        except HarnessError:  # GPT-2's, without a network
            continue
        tokens = sum(map(len, encoding.encode_ordinary_batch(measured)))
        click.echo(f"  {shown:<28}{encoding.n_vocab:>8,} tokens {size / max(tokens, 1):>6.2f}")


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
