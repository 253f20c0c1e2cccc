"""Commands that measure and write no run: profile, find-lr."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from commandline import invocation, terminal
from harness.cli.options import (
    DATA_HELP,
    TOKENIZER_HELP,
    chart_file,
    field_option,
    pieces_of,
    pieces_option,
    prepare_jax,
    root_option,
)
from harness.config import Config
from harness.errors import UsageError
from harness.presets import preset
from harness.settings import typed_settings

preset_option = click.option(
    "--preset", "preset_name", metavar="P", help="Settings to start from; see `harness presets`. [default: pocket]"
)
set_option = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any setting; see `harness settings`. Repeatable."
)


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@preset_option
@click.option("--batch-sizes", metavar="B,B", help="Batch sizes to compare. [default: the run's, and twice that]")
@click.option("--steps", type=click.IntRange(1), default=10, show_default=True, help="Steps to measure for each.")
@click.option(
    "--to", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Directory of the traces. [default: profiles/RUN]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--estimate", is_flag=True, help="Calculate memory and time instead; reads no data, runs no step.")
@click.option("--device", "device_name", metavar="D", help="With --estimate: for another device, such as H100.")
@set_option
@root_option
def profile(
    run_name: str | None,
    preset_name: str | None,
    batch_sizes: str | None,
    steps: int,
    folder: Path | None,
    as_json: bool,
    estimate: bool,
    device_name: str | None,
    settings: tuple[str, ...],
    root: Path,
) -> None:
    """Profile the train step of RUN, or of a preset.

    Prints the time by part of the model, the FLOP utilization and the memory, for two batch sizes.
    Writes a trace for Perfetto and TensorBoard. The run does not change. With
    --estimate, prints what a run would take, before it is started.
    """
    prepare_jax()
    if estimate:
        _estimate(root, run_name, preset_name, device_name, typed_settings(settings, {}), as_json=as_json)
        return
    if device_name:
        raise UsageError("--device needs --estimate; a profile is of this machine's devices.")
    import jax

    from commandline.text import counted
    from harness.run.run_session import log_to_stderr
    from harness.run.step_profile import profile as measure
    from harness.run.step_profile import table

    # A program from the cache may have been compiled from the same operations in other scopes.
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    base = open_to_measure(root, run_name, preset_name, typed_settings(settings, {}))
    config = base.config
    sizes = [config.batch_size, 2 * config.batch_size] if batch_sizes is None else _batch_sizes(batch_sizes)
    folder = folder or Path("profiles") / (run_name or preset_name or "pocket").replace("/", "-")
    sessions = [_with_batch_size(base, size) for size in sizes]
    for session in sessions:
        _ = session.prepared  # raises what is wrong with any of them before the first is measured
    profiles = []
    for session in sessions:
        size = session.config.batch_size
        log_to_stderr(f"Compiling and measuring {counted(steps, 'step')} of batch size {size}.")
        profiles.append(measure(session, steps, folder / f"batch-{size}"))
    if as_json:
        click.echo(json.dumps([each.to_json() for each in profiles], indent=1))
        return
    device = jax.devices()[0].device_kind
    click.echo(f"Profile of {run_name or preset_name or 'pocket'} on {counted(base.mesh.size, 'device')} ({device})")
    click.echo(table(profiles))
    for each in profiles:
        click.echo(f"Trace of batch {each.batch_size}: {each.trace}")
    terminal.echo(
        f"Open a trace at https://ui.perfetto.dev, or all of them with `tensorboard --logdir {folder}`, after "
        f"`{invocation.install('tensorboard', 'xprof')}`."
    )


@click.command("find-lr")
@click.option("--run", "run_name", metavar="RUN", help="An existing run whose settings to use.")
@preset_option
@click.option("--data", metavar="S", help=DATA_HELP)
@field_option
@click.option("--tokenizer", metavar="T", help=TOKENIZER_HELP)
@pieces_option
@click.option("--steps", type=click.IntRange(20), default=200, show_default=True, help="Steps of the test.")
@click.option(
    "--to", "file", type=click.Path(path_type=Path, dir_okay=False), default="find-lr.svg", show_default=True,
    callback=chart_file, help="File of the chart; an existing one is replaced.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Show no progress.")
@set_option
@root_option
def find_lr(
    run_name: str | None, preset_name: str | None, pieces_folder: Path | None, steps: int, file: Path, quiet: bool,
    settings: tuple[str, ...], root: Path, **flags: Any,
) -> None:  # fmt: skip
    """Find a learning rate: a range test from 1e-6 to 1.

    Trains from the initial state with a rate that grows at each step, until the loss diverges. Suggests the rate at
    which the loss falls fastest, and draws the losses. Writes no run.
    """
    prepare_jax()
    from commandline.files import write
    from harness.run import charts
    from harness.run.find_lr import range_test

    session = open_to_measure(root, run_name, preset_name, typed_settings(settings, flags), pieces_folder)
    test = range_test(session, steps, quiet=quiet)
    click.echo(test.table())
    write(file, charts.range_test(test.rates, test.losses, test.smoothed, test.suggested))
    end = f"The loss diverged at {test.rates[-1]:.1e}." if test.diverged else "The loss did not diverge."
    terminal.echo(
        f"{end} It falls fastest at {test.suggested:.1e}: try --set learning_rate={test.suggested:.1e} as the peak."
    )
    click.echo(f"Chart: {file}")


def open_to_measure(
    root: Path, run_name: str | None, preset_name: str | None, typed: dict[str, str], pieces_folder: Path | None = None
) -> Any:
    """The session of a run, or by a preset, with other settings. Raises UsageError if there is no such run or
    preset."""
    from harness.run.run_session import ignore, open_session

    run, config = _named(root, run_name, preset_name)
    return open_session(run, config.with_options(typed), pieces_of(run, config, pieces_folder), log=ignore)


def _named(root: Path, run_name: str | None, preset_name: str | None) -> tuple[Any, Config]:
    """A run with its settings, or a preset's. Raises UsageError if there is no such run or preset."""
    from harness.run.folder import Run

    if run_name and preset_name:
        raise UsageError("A run has settings of its own; name a run or a preset, not both.")
    # No run has a name with a dot in front, so nothing is written or read there.
    run = Run.find(root, run_name) if run_name else Run(root / ".measured")
    return run, run.config() if run_name else preset(preset_name or "pocket")


def _estimate(
    root: Path, run_name: str | None, preset_name: str | None, device_name: str | None, typed: dict[str, str], *,
    as_json: bool,
) -> None:  # fmt: skip
    """Prints what the train steps of a run, or of a preset, take on devices of this machine or on others."""
    import math

    import jax

    from commandline.text import counted
    from harness.run.estimate import advice, estimate, table, with_vocabulary
    from harness.run.hardware import device_here, device_named

    _, config = _named(root, run_name, preset_name)
    config = dataclasses.replace(with_vocabulary(config.with_options(typed)), reward="")
    if device_name:  # emulated, so that shardings are those of the mesh
        device = device_named(device_name, config.dtype)
        config = dataclasses.replace(config, mesh="1x1" if config.mesh == "auto" else config.mesh)
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", math.prod(config.mesh_shape or (1,)))
    else:
        device = device_here(config.dtype)
    found = estimate(config, device)
    if as_json:
        values = dataclasses.asdict(found)
        click.echo(json.dumps({**values, "config": run_name or preset_name or "pocket", "step": found.step}, indent=1))
        return
    click.echo(
        f"{run_name or preset_name or 'pocket'}: {found.tokens:,} tokens in a step, on "
        f"{counted(found.devices, 'device')} ({device.name})"
    )
    click.echo(table(found))
    if sentence := advice(found):
        terminal.echo(sentence)


def _with_batch_size(session: Any, batch_size: int) -> Any:
    """A session with another batch size."""
    from harness.run.run_session import open_session

    config = dataclasses.replace(session.config, batch_size=batch_size, debug_nans=False, reward="")
    return open_session(session.run, config, session.pieces, log=session.log)


def _batch_sizes(text: str) -> list[int]:
    """The numbers in `8,16`. Raises UsageError if they are not."""
    sizes = text.split(",")
    if not all(size.strip().isdecimal() and int(size) for size in sizes):
        raise UsageError(f"--batch-sizes {text} is not valid; write whole numbers with commas, such as 8,16.")
    return list(dict.fromkeys(map(int, sizes)))
