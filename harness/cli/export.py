"""The command that writes models for other programs: export."""

import shutil
from pathlib import Path
from typing import Any

import click

from commandline import terminal
from harness.cli.options import no_pieces_option, open_run, prepare_jax, root_option, step_option
from harness.config import HUGGING_FACE
from harness.errors import UsageError

GGUF = ".gguf"


@click.command()
@click.argument("run_name", metavar="MODEL")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option("--to", metavar="DIR|FILE.gguf", type=click.Path(path_type=Path),
              help="New folder for the model, or file for llama.cpp.")  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]),
              help="Of the parameters. [default: that of the model in Hugging Face's format that the run started from, "
              "or float32]")  # fmt: skip
@click.option("--adapters", is_flag=True, help="Write the adapters of the run alone, for PEFT.")
@step_option
@no_pieces_option
@root_option
def export(
    run_name: str, folder: Path | None, to: Path | None, dtype: str | None, step: int | None, root: Path, *,
    adapters: bool, no_pieces: bool,
) -> None:  # fmt: skip
    """Write a model and its tokenizer for transformers or llama.cpp.

    A new folder holds them; a name that ends with .gguf is a file for llama.cpp. The settings of a run decide the
    layout, such as that of GPT-2, Llama or Qwen. Adapters are merged, or with --adapters written alone. A model that
    came in Hugging Face's format keeps its config, its dtype and the files of its tokenizer. A run that learned from
    dialogues takes its chat template along. A run with pieces uses your export_gpt2 from problem 28 instead. MODEL may
    also be hf:DIR or hf:ORG/NAME: adapters of PEFT are merged into their base.
    """
    is_imported = run_name.startswith(HUGGING_FACE)
    if is_imported and (adapters or step is not None or no_pieces):
        raise UsageError(f"--adapters, --step and --no-pieces need a run; {run_name} is none.")
    if adapters:
        _check_adapters(root, run_name, dtype or "", no_pieces=no_pieces)
    target = _target(run_name, folder, to, adapters=adapters)
    is_file = target.suffix == GGUF
    prepare_jax()
    from commandline.files import new_folder

    # A file for llama.cpp is made of the folder that it would be without the suffix.
    beside = target.with_name(f".{target.name}.folder") if is_file else target
    try:
        with new_folder(beside) as unfinished:
            if is_imported:
                said = _write_imported(run_name, unfinished, dtype or "")
            else:
                session = open_run(root, run_name, no_pieces=no_pieces)
                said = _write_run(session, run_name, unfinished, dtype or "", step, adapters=adapters)
        note = _write_file(beside, target) if is_file else ""
    finally:
        if is_file:
            shutil.rmtree(beside, ignore_errors=True)
    terminal.echo(" ".join(filter(None, (f"Exported {said.format(target=target)}.", note))))


def _target(run_name: str, folder: Path | None, to: Path | None, *, adapters: bool) -> Path:
    """The folder or file to write. Raises UsageError if none or two are named, or a file that cannot be written."""
    target = to or folder
    if target is None or (to and folder):
        option = " --adapters" * adapters
        raise UsageError(f"Name one folder to export to, as in `harness export {run_name}{option} --to DIR`.")
    if target.suffix == GGUF and adapters:
        raise UsageError(f"--adapters is not valid with {target}; adapters are written to a folder.")
    if target.suffix == GGUF and target.exists():
        raise UsageError(f"{target} already exists; choose another file.")
    return target


def _check_adapters(root: Path, name: str, dtype: str, *, no_pieces: bool) -> None:
    """Raises UsageError unless a run has adapters that can be written alone."""
    from harness.run.folder import Run

    config = Run.find(root, name).config()
    if (config.pieces and not no_pieces) or not config.lora_rank:
        raise UsageError(
            f"--adapters needs a run that trained adapters without pieces; {name} did not. Export the whole model, "
            "without --adapters."
        )
    if dtype:
        raise UsageError("--dtype is not for adapters, which are written as they were trained.")


def _write_file(folder: Path, target: Path) -> str:
    """Writes the model of a folder as one file, which is moved into place when it is complete. Returns what is said
    of it.

    Raises UsageError if it cannot be written.
    """
    from harness.hugging_face.gguf_file import write_gguf

    file = folder / target.name
    try:
        note = write_gguf(folder, file)
        file.replace(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from error
    return note


def _write_imported(name: str, folder: Path, dtype: str) -> str:
    """Writes a model in Hugging Face's format again, with its adapters merged. Returns what was exported."""
    from harness.data.hub import model_folder
    from harness.hugging_face.export import write_again

    write_again(model_folder(name), folder, dtype)
    return f"{name} to {{target}}"


def _write_run(session: Any, name: str, folder: Path, dtype: str, step: int | None, *, adapters: bool) -> str:
    """Writes the model of a run, or its adapters. Returns what was exported."""
    from harness.data.hub import base_of, model_folder, name_of
    from harness.hugging_face.adapters import write_adapters
    from harness.hugging_face.export import find_layout, write_model
    from harness.pieces.assemble import export_model
    from harness.run.run_session import log_to_stderr
    from harness.run.state import load_state, origin

    config, pieces = session.config, session.pieces
    if pieces and dtype:
        raise UsageError("--dtype is not for runs with pieces: export_gpt2 writes the parameters.")
    source = None if pieces else origin(session.run, config, log_to_stderr)
    layout = None if pieces else source.layout if source else find_layout(config)
    step, state = load_state(session, step)
    model = session.functions.model(state)
    if pieces:
        export_model(config, pieces, model, folder)
        return f"run {name}, step {step}, to {{target}}"
    assert layout is not None
    if adapters:
        base = name_of(config.base) if config.base.startswith(HUGGING_FACE) else None
        if base and base_of(model_folder(config.base)) != model_folder(config.base):
            raise UsageError(
                f"--adapters is not valid for {name}: its base {base} is adapters, too. Export the whole model."
            )
        write_adapters(
            layout, model, config.lora_rank, vocab_size=config.vocab_size, tied=config.tied_head, base=base,
            folder=folder,
        )  # fmt: skip
        said = f"the adapters of run {name}, step {step}, to {{target}}"
        if base:
            return said
        return (
            f"{said}. They change the run {config.base}: `harness export {config.base} --to DIR` writes it, and "
            "base_model_name_or_path in adapter_config.json names it"
        )
    write_model(config, session.tokenizer, model, folder, session.template, source, dtype)
    without = ", without the module of mtp=1, for which it has no place" if config.mtp else ""
    return f"run {name}, step {step}, to {{target}} in {layout.title} layout{without}"
