"""Profiles the train step of a run: time by operation and by part of the model, FLOP utilization, memory."""

import collections
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import jax
from flax import nnx
from jax.profiler import ProfileData

import harness
from commandline.text import counted
from harness.pieces.load import attribute_errors_to
from harness.run.batch_source import open_feed
from harness.run.hardware import flops_per_token, utilization
from harness.run.hlo_sources import REST, SCOPES, Operation, operations
from harness.run.run_session import Session
from harness.training.sharding import path_names

WARM_UP = 2  # steps
TOP = 12  # operations that the table shows
# Parts of the memory, in the words of the table
MEMORY = {
    "parameters": "parameters",
    "moments": "optimizer state",
    "temporaries": "activations, gradients and workspace",
    "gradients": "  of which gradients, at most",
    "total": "total",
}
Row = tuple[str, list[str]]  # of the table: what it shows, and its value for each profile


@dataclasses.dataclass(frozen=True)
class Profile:
    """Measurements of one train step at one batch size. Times are in seconds per step."""

    batch_size: int
    step: float
    tokens_per_s: float
    mfu: float | None  # None where the peak rate of the device is unknown
    flops: float  # per step, by `flops_per_token`
    compiler_flops: float  # per step and device, by XLA, which counts the body of a loop once
    memory: dict[str, int]  # bytes on one device
    operations: dict[Operation, float]  # self time, summed over threads, streams and devices
    trace: Path

    @property
    def parts(self) -> dict[str, float]:
        """The time of each part of the model."""
        sums: dict[str, float] = collections.defaultdict(float)
        for operation, seconds in self.operations.items():
            sums[operation.part] += seconds
        return dict(sums)

    def to_json(self) -> dict[str, Any]:
        """The profile as values of JSON, the operations by time."""
        entries = sorted(self.operations.items(), key=lambda entry: -entry[1])
        rows = [{**operation._asdict(), "seconds": seconds} for operation, seconds in entries]
        return {**dataclasses.asdict(self), "trace": str(self.trace), "parts": self.parts, "operations": rows}


def profile(session: Session, steps: int, folder: Path) -> Profile:
    """Profiles `steps` train steps from an initial state, on the run's data, and writes a trace to `folder`.

    Changes nothing in the run. Steps are timed before the trace starts, because tracing slows them down. Raises
    PieceError if a piece fails.
    """
    config, feed = session.config, open_feed(session)
    with jax.set_mesh(session.mesh):
        # A piece `train_step` jits itself; it is compiled as a part of this program.
        step = session.functions.train_step
        step = step if hasattr(step, "lower") else jax.jit(step, donate_argnums=0)
        state = session.functions.init()
        batches = [feed.next(state) for _ in range(steps)]
        lowered = attribute_errors_to(session.pieces, lambda: step.lower(state, batches[0].arrays))
        compiled = lowered.compile()

        def run(count: int, compiled: Any = compiled) -> float:
            nonlocal state
            started = time.perf_counter()
            for number in range(count):
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    state, metrics = compiled(state, batches[number % steps].arrays)
            jax.block_until_ready((state, metrics))
            return time.perf_counter() - started

        run(WARM_UP)
        seconds = run(steps)
        if jax.default_backend() == "gpu":
            # In a CUDA graph, no kernel says which operation it belongs to.
            compiled = lowered.compile(compiler_options={"xla_gpu_enable_command_buffer": ""})
            run(WARM_UP, compiled)
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # Python's calls would slow the steps down
        with jax.profiler.trace(folder, profiler_options=options):
            run(steps, compiled)
    files = sorted(folder.glob("plugins/profile/*/*.xplane.pb"))
    folders = (Path(harness.__file__).parent, *([session.pieces.folder.absolute()] if session.pieces else []))
    text = compiled.as_text()
    times = operation_times(ProfileData.from_file(str(files[-1])), text, operations(text, folders))
    tokens = sum(int(batch.targets) for batch in batches)
    flops = flops_per_token(config) * tokens
    return Profile(
        config.batch_size,
        seconds / steps,
        tokens / seconds,
        utilization(flops / seconds, config.dtype, session.mesh.size),
        flops / steps,
        float((compiled.cost_analysis() or {}).get("flops", math.nan)),
        memory_by_part(session, compiled),
        {operation: total / steps for operation, total in times.items()},
        files[-1].with_name(files[-1].name.replace(".xplane.pb", ".trace.json.gz")),
    )


def operation_times(trace: ProfileData, text: str, origins: dict[str, Operation]) -> collections.Counter[Operation]:
    """The seconds of each operation of a program in a trace, without those of the operations that it calls.

    On a GPU, kernels are on lines of the device; on a CPU, operations are on lines of the host's threads.
    """
    module = text.split(maxsplit=2)[1].rstrip(",")
    planes = list(trace.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    sums: collections.Counter[Operation] = collections.Counter()
    for plane in devices or planes:
        for line in plane.lines:
            open_events: list[tuple[Operation, float]] = []  # those that contain the event, with their ends
            # A loop comes before its body: it starts no later, and ends no earlier.
            for event in sorted(line.events, key=lambda event: (event.start_ns, -event.duration_ns)):
                stats = dict(event.stats)
                origin = origins.get(str(stats.get("hlo_op", "")))
                if origin is None or stats.get("hlo_module") != module:
                    continue
                # By its middle, because times are rounded: an operation may seem to begin before the end of the one
                # before.
                while open_events and open_events[-1][1] <= event.start_ns + event.duration_ns / 2:
                    open_events.pop()
                if open_events:
                    sums[open_events[-1][0]] -= event.duration_ns / 1e9
                sums[origin] += event.duration_ns / 1e9
                open_events.append((origin, event.start_ns + event.duration_ns))
    return sums


def memory_by_part(session: Session, compiled: Any) -> dict[str, int]:
    """Bytes on one device, by part. The gradients are among the temporaries."""
    state = session.functions.abstract_state
    sizes: collections.Counter[str] = collections.Counter()
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        sizes[path_names(path)[0]] += _device_bytes(leaf)
    trained = nnx.state(session.functions.model(state), nnx.LoRAParam if session.config.lora_rank else nnx.Param)
    temporaries = compiled.memory_analysis().temp_size_in_bytes
    return {
        "parameters": sizes["0"] + sizes["2"],  # and their average, if there is one
        "moments": sizes["1"],
        "temporaries": temporaries,
        "gradients": sum(map(_device_bytes, jax.tree.leaves(trained))),
        "total": sum(sizes.values()) + temporaries,
    }


def _device_bytes(leaf: jax.ShapeDtypeStruct) -> int:
    shape = leaf.shape if leaf.sharding is None else leaf.sharding.shard_shape(leaf.shape)
    return math.prod(shape) * leaf.dtype.itemsize


def table(profiles: list[Profile]) -> str:
    """The profiles side by side, over several lines."""
    rows = [*_speed_rows(profiles), *_memory_rows(profiles), *_time_rows(profiles)]
    width = max(len(name) for name, values in rows if values)
    return "\n".join(f"{name:<{width}}" + "".join(f"{value:>18}" for value in values) for name, values in rows)


def _speed_rows(profiles: list[Profile]) -> list[Row]:
    """Returns the rows on the time and the FLOPs of a step."""
    return [
        ("", [f"batch {each.batch_size}" for each in profiles]),
        ("  step", [f"{each.step * 1e3:,.2f} ms" for each in profiles]),
        ("  tokens/s", [f"{each.tokens_per_s:,.0f}" for each in profiles]),
        ("  model FLOP utilization", ["unknown" if each.mfu is None else f"{each.mfu:.1%}" for each in profiles]),
        ("  FLOPs per step, from the sizes of the model", [f"{each.flops:.3g}" for each in profiles]),
        ("  FLOPs per step, by XLA (loop bodies count once)", [f"{each.compiler_flops:.3g}" for each in profiles]),
    ]


def _memory_rows(profiles: list[Profile]) -> list[Row]:
    """Returns the rows on the memory of a device, by part, in MB."""
    return [
        ("Memory of a device", []),
        *(
            (f"  {words}", [f"{each.memory[name] / 1e6:,.1f} MB" for each in profiles])
            for name, words in MEMORY.items()
        ),
    ]


def _time_rows(profiles: list[Profile]) -> list[Row]:
    """Returns the rows on the time, in ms and as a share: by part of the model, and of the longest operations."""
    totals = [sum(each.operations.values()) or 1 for each in profiles]

    def times(seconds: list[float]) -> list[str]:
        return [f"{s * 1e3:,.2f} ms{s / total:>6.1%}" for s, total in zip(seconds, totals, strict=True)]

    top = _longest(profiles, totals)
    return [
        ("Time by part of the model, summed over threads and devices", []),
        *((f"  {part}", times([each.parts.get(part, 0) for each in profiles])) for part in _in_order(profiles)),
        (f"The {counted(len(top), 'operation')} that take longest", []),
        *(
            (f"  {each.part:<14} {each!s:<30} {each.line}", times([p.operations.get(each, 0) for p in profiles]))
            for each in top
        ),
    ]


def _longest(profiles: list[Profile], totals: list[float]) -> list[Operation]:
    """Finds the `TOP` operations by their largest share of a profile. `totals` are the seconds of each profile."""
    shares: dict[Operation, float] = collections.defaultdict(float)
    for each, total in zip(profiles, totals, strict=True):
        for operation, seconds in each.operations.items():
            shares[operation] = max(shares[operation], seconds / total)
    return sorted(shares, key=lambda operation: (-shares[operation], operation))[:TOP]


def _in_order(profiles: list[Profile]) -> list[str]:
    """The parts: those of the harness, then pieces, then the rest."""
    pieces = sorted({part for each in profiles for part in each.parts} - {*SCOPES, REST})
    parts = [*SCOPES[:2], *pieces, *SCOPES[2:], REST]
    return [part for part in parts if any(each.parts.get(part) for each in profiles)]
