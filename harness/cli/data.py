"""Commands for data and settings: data, duplicates, tokenizer, presets, settings."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from commandline import terminal
from harness.cli.options import TOKENIZER_HELP, field_option, pieces_option
from harness.config import MESSAGES, PAIRS, PARTS, PLAIN, DataConfig
from harness.errors import HarnessError, UsageError
from harness.presets import PRESETS
from harness.settings import describe

SHOWN = 5  # texts that do not stay


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


@click.command()
@click.argument("source")
@field_option
@click.option("--threshold", type=click.FloatRange(0, 1, min_open=True), default=0.8, show_default=True,
              help="Share of runs of words that two near-duplicates have in common.")  # fmt: skip
@click.option("--words", type=click.IntRange(1), default=5, show_default=True, help="Words of such a run.")
@click.option("--to", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="New file for the texts that stay: .jsonl, or .txt.")  # fmt: skip
@pieces_option
def duplicates(
    source: str, field: str | None, threshold: float, words: int, file: Path | None, pieces_folder: Path | None
) -> None:
    """Find texts that are nearly equal, and write a file without them.

    SOURCE is a file, folder, pattern or URL of texts. Of each group of near-duplicates, the longest text stays. With
    --pieces, your `deduplicate` of problem 55 decides.
    """
    from commandline.files import write
    from commandline.progress import working
    from commandline.text import counted
    from harness.data.duplicates import BANDS, deduplicate, hash_functions

    if file is not None and (file.suffix not in (".jsonl", ".txt") or file.exists()):
        reason = "already exists" if file.exists() else "must end in .jsonl or .txt"
        raise UsageError(f"--to {file} is not valid; it {reason}.")
    field = field or DataConfig.field
    texts = _whole_texts(source, field)
    stay: Any = deduplicate
    if pieces_folder is not None:
        stay = _piece("deduplicate", pieces_folder)
    with working(f"comparing {counted(len(texts), 'text')}"):
        kept = [int(index) for index in stay(texts, words, *hash_functions(), BANDS, threshold)]
    number = len(texts) - len(kept)
    click.echo(f"{counted(len(texts), 'text')}, of which {number:,} {'is a' if number == 1 else 'are'} "
               f"near-duplicate{'' if number == 1 else 's'} of others that stay.")  # fmt: skip
    for index in sorted({*range(len(texts))} - {*kept})[:SHOWN]:
        click.echo(f"  {texts[index][:60]!r}")
    if file is not None:
        write(file, _as_file(file, field, [texts[index] for index in kept]))
        click.echo(f"Written: {counted(len(kept), 'text')} to {file}")
    elif number:
        terminal.echo("Write a file without them with --to FILE.jsonl.")


def _whole_texts(source: str, field: str) -> list[str]:
    """All texts of a source. Raises UsageError if there are none."""
    from harness.data.formats import Seen
    from harness.data.prepared import open_sources

    texts, begun = list[str](), list[str]()
    for each in open_sources(DataConfig(data=source, field=field, chat=PLAIN, packing="padded"), whole=True):
        for part in each.read(Seen()):
            begun.append(part.text)
            if part.ends:
                texts.append("".join(begun))
                begun.clear()
    if not texts:
        raise UsageError(f"{source} contains no text.")
    return texts


def _piece(name: str, folder: Path) -> Callable[..., Any]:
    """A piece of a workspace, whose errors say where they come from. Raises UsageError if it is not there."""
    from harness.pieces.load import attribute_errors_to, load_pieces

    pieces = load_pieces(folder)
    if name not in pieces.by_name:
        raise UsageError(f"{folder} has no finished `{name}`; omit --pieces to use the harness's own.")
    return lambda *args: attribute_errors_to(pieces, lambda: pieces.by_name[name](*args))


def _as_file(file: Path, field: str, texts: list[str]) -> str:
    """Texts as records, or with end-of-text between them. Dialogues are stored as JSON."""
    from harness.data.tokenizer_json import END_OF_TEXT

    if file.suffix == ".txt":
        return f"\n{END_OF_TEXT}\n".join(texts) + "\n"
    values = (json.loads(text) if field in (MESSAGES, PAIRS) else text for text in texts)
    records = (value if field == PAIRS else {field: value} for value in values)
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


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
