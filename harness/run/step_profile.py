"""Profiles the train step of a run: its time, by part of the model as well, its FLOP utilization and its memory."""

import collections
import dataclasses
import math
import re
import time
from pathlib import Path
from typing import Any

import jax
from flax import nnx
from jax.profiler import ProfileData

from harness.pieces.load import attribute_errors_to
from harness.run.batch_source import open_feed
from harness.run.hardware import flops_per_token, utilization
from harness.run.run_session import Session
from harness.training.sharding import path_names

# Those of `jax.named_scope` in the model and the train step
SCOPES = ("attention", "state-space", "feed-forward", "loss", "optimizer")
REST = "rest"
WARM_UP = 2  # steps
# Parts of the memory, in the words of the table
MEMORY = {
    "parameters": "parameters",
    "moments": "optimizer state",
    "temporaries": "activations, gradients and workspace",
    "gradients": "  of which gradients, at most",
    "total": "total",
}
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?([\w.-]+) = ")
_ORIGIN = re.compile(r'op_name="([^"]*/[^"]*)"')  # reducers have a name without a path
_CALLS = re.compile(r"\bcalls=%?([\w.-]+)")


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
    parts: dict[str, float]  # time of each part of the model, summed over threads, streams and devices
    trace: Path

    def to_json(self) -> dict[str, Any]:
        """The profile as values of JSON."""
        return {**dataclasses.asdict(self), "trace": str(self.trace)}


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
    times = part_times(ProfileData.from_file(str(files[-1])), compiled.as_text())
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
        {part: total / steps for part, total in times.items()},
        files[-1].with_name(files[-1].name.replace(".xplane.pb", ".trace.json.gz")),
    )


def parts_of(text: str) -> dict[str, str]:
    """The part of the model that each instruction of `compiled.as_text()` comes from: a scope, or REST.

    An instruction that records no origin, such as some fusions, has that of the computation that it calls. One that
    calls none was added by XLA, such as a copy.
    """
    found: dict[str, str] = {}
    calls: dict[str, str] = {}
    last: dict[str, str] = {}  # the part of the last instruction of each computation, which is its result
    computation = ""
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            computation = start[1]
        elif instruction := _INSTRUCTION.match(line):
            if origin := _ORIGIN.search(line):  # a path such as jit(step)/transpose(jvp(attention))/mul
                path = re.sub(r"jit\(\w*\)", "", origin[1].partition(";")[0])
                scopes = [word for word in re.findall(r"[\w-]+", path) if word in SCOPES]
                found[instruction[1]] = last[computation] = scopes[-1] if scopes else REST
            elif call := _CALLS.search(line):
                calls[instruction[1]] = call[1]
            else:
                found[instruction[1]] = REST
    return found | {name: last.get(called, REST) for name, called in calls.items()}


def part_times(trace: ProfileData, text: str) -> dict[str, float]:
    """The seconds of each part of a program in a trace.

    On a GPU, kernels are on lines of the device; on a CPU, operations are on lines of the host's threads. The time of
    an operation is without those that it calls.
    """
    module, parts = text.split(maxsplit=2)[1].rstrip(","), parts_of(text)
    planes = list(trace.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    sums: dict[str, float] = collections.defaultdict(float)
    for plane in devices or planes:
        for line in plane.lines:
            open_events: list[tuple[str, float]] = []  # the parts of those that contain the event, with their ends
            # A loop comes before its body: it starts no later, and ends no earlier.
            for event in sorted(line.events, key=lambda event: (event.start_ns, -event.duration_ns)):
                stats = dict(event.stats)
                part = parts.get(str(stats.get("hlo_op", "")))
                if part is None or stats.get("hlo_module") != module:
                    continue
                # By its middle, because times are rounded: an operation may seem to begin before the end of the one
                # before.
                while open_events and open_events[-1][1] <= event.start_ns + event.duration_ns / 2:
                    open_events.pop()
                if open_events:
                    sums[open_events[-1][0]] -= event.duration_ns / 1e9
                sums[part] += event.duration_ns / 1e9
                open_events.append((part, event.start_ns + event.duration_ns))
    return dict(sums)


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
    parts = [part for part in (*SCOPES, REST) if any(part in each.parts for each in profiles)]
    rows = [
        ("", [f"batch {each.batch_size}" for each in profiles]),
        ("  step", [f"{each.step * 1e3:,.2f} ms" for each in profiles]),
        ("  tokens/s", [f"{each.tokens_per_s:,.0f}" for each in profiles]),
        ("  model FLOP utilization", ["unknown" if each.mfu is None else f"{each.mfu:.1%}" for each in profiles]),
        ("  FLOPs per step, from the sizes of the model", [f"{each.flops:.3g}" for each in profiles]),
        ("  FLOPs per step, by XLA (loop bodies count once)", [f"{each.compiler_flops:.3g}" for each in profiles]),
        ("Memory of a device", []),
        *(
            (f"  {words}", [f"{each.memory[name] / 1e6:,.1f} MB" for each in profiles])
            for name, words in MEMORY.items()
        ),
        ("Time by part of the model, summed over threads and devices", []),
        *((f"  {part}", [_share(each, part) for each in profiles]) for part in parts),
    ]
    width = max(len(name) for name, values in rows if values)
    return "\n".join(f"{name:<{width}}" + "".join(f"{value:>18}" for value in values) for name, values in rows)


def _share(profile: Profile, part: str) -> str:
    """The time of a part, in ms and as a share of all."""
    seconds, total = profile.parts.get(part, 0.0), sum(profile.parts.values()) or 1
    return f"{seconds * 1e3:,.2f} ms{seconds / total:>6.1%}"
