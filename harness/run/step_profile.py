"""Profiles the train step of a run: time by operation and by part of the model, FLOP utilization, memory."""

import collections
import dataclasses
import math
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
from flax import nnx
from jax.profiler import ProfileData

from commandline.text import counted
from harness.pieces.load import attribute_errors_to
from harness.run.batch_source import open_feed
from harness.run.hardware import flops_per_token, peak_flops
from harness.run.run_session import Session
from harness.training.sharding import path_names

# Those of `jax.named_scope` in the model and the train step
SCOPES = ("attention", "state-space", "feed-forward", "loss", "optimizer")
REST = "rest"
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
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?([\w.-]+) = ")
_ORIGIN = re.compile(r'op_name="([^"]*/[^"]*)"')  # reducers have a name without a path
_CALLS = re.compile(r"\bcalls=%?([\w.-]+)")


class Operation(NamedTuple):
    """Where the instructions of a compiled program come from."""

    part: str  # a scope, or REST
    primitive: str  # of JAX, such as dot_general, or the equation of an einsum
    backward: bool

    def __str__(self) -> str:
        return self.primitive + (", backward" if self.backward else "")


@dataclasses.dataclass(frozen=True)
class Profile:
    """Measurements of one train step at one batch size. Times are in seconds per step."""

    batch_size: int
    step: float
    tokens_per_s: float
    mfu: float
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
    times = operation_times(ProfileData.from_file(str(files[-1])), compiled.as_text())
    tokens = sum(int(batch.targets) for batch in batches)
    flops = flops_per_token(config) * tokens
    return Profile(
        config.batch_size,
        seconds / steps,
        tokens / seconds,
        flops / seconds / (peak_flops(config.dtype) * session.mesh.size),
        flops / steps,
        float((compiled.cost_analysis() or {}).get("flops", math.nan)),
        memory_by_part(session, compiled),
        {operation: total / steps for operation, total in times.items()},
        files[-1].with_name(files[-1].name.replace(".xplane.pb", ".trace.json.gz")),
    )


def operations(text: str) -> dict[str, Operation]:
    """The origin of each instruction of `compiled.as_text()`.

    An instruction that records no origin, such as some fusions, has that of the computation that it calls. One that
    calls none was added by XLA, such as a copy.
    """
    found: dict[str, Operation] = {}
    calls: dict[str, str] = {}
    last: dict[str, Operation] = {}  # the origin of the last instruction of each computation, which is its result
    computation = ""
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            computation = start[1]
        elif instruction := _INSTRUCTION.match(line):
            if origin := _ORIGIN.search(line):
                found[instruction[1]] = last[computation] = _operation(origin[1].partition(";")[0])
            else:
                call = _CALLS.search(line)
                calls[instruction[1]] = call[1] if call else ""
    for name, called in calls.items():
        found[name] = last.get(called) or Operation(REST, f"{name.rstrip('.0123456789')}, added by XLA", False)
    return found


def _operation(path: str) -> Operation:
    """The origin by a path such as `jit(step)/transpose(jvp())/attention/mul`."""
    scopes = [word for word in re.findall(r"[\w-]+", re.sub(r"jit\(\w*\)", "", path)) if word in SCOPES]
    *_, outer, primitive = ["", *path.split("/")]
    return Operation(scopes[-1] if scopes else REST, outer if "->" in outer else primitive, "transpose(" in path)


def operation_times(trace: ProfileData, text: str) -> collections.Counter[Operation]:
    """The seconds of each operation of a program in a trace, without those of the operations that it calls.

    On a GPU, kernels are on lines of the device; on a CPU, operations are on lines of the host's threads.
    """
    origins = operations(text)
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
        ("  model FLOP utilization", [f"{each.mfu:.1%}" for each in profiles]),
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
    parts = [part for part in (*SCOPES, REST) if any(each.parts.get(part) for each in profiles)]
    return [
        ("Time by part of the model, summed over threads and devices", []),
        *((f"  {part}", times([each.parts.get(part, 0) for each in profiles])) for part in parts),
        (f"The {counted(len(top), 'operation')} that take longest", []),
        *((f"  {each.part:<14} {each}", times([p.operations.get(each, 0) for p in profiles])) for each in top),
    ]


def _longest(profiles: list[Profile], totals: list[float]) -> list[Operation]:
    """Finds the `TOP` operations by their largest share of a profile. `totals` are the seconds of each profile."""
    shares: dict[Operation, float] = collections.defaultdict(float)
    for each, total in zip(profiles, totals, strict=True):
        for operation, seconds in each.operations.items():
            shares[operation] = max(shares[operation], seconds / total)
    return sorted(shares, key=lambda operation: (-shares[operation], operation))[:TOP]
