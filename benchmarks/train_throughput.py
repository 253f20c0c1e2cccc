"""Training throughput: the harness and another program on the same shape and rows, with alternating steps.

    python benchmarks/train_throughput.py [tutorial | nanogpt] [ROUNDS] [--smoke]

tutorial: the program of the JAX tutorial. 4 blocks of width 128, feed-forward width 256, a vocabulary of 50,257,
batches of 32 x 128 tokens. The bars: at least 2 times its tokens/s in at most a third of its memory.

nanogpt: nanoGPT's choices in PyTorch, which must be installed, and its settings for a CPU. 4 blocks of width 128, a
vocabulary of 65, batches of 12 x 64 tokens. The bar: at least 1.4 times its tokens/s.

Each program runs in its own process and takes some steps per request, so both run under the same load. The limit is the
measured FLOP rate of large matrix products, divided by the FLOPs per token.
"""

import dataclasses
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from timing import alternately, smoke

from harness.memory import keep_freed_memory

SEED = 0
Step = Callable[[np.ndarray], Callable[[], float]]  # starts an update on rows (B, T + 1); the result waits for its loss


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a comparison, and how many steps are timed together."""

    B: int
    T: int
    V: int
    steps: int
    faster: float  # the bars
    memory: float | None = None

    def rows(self, step: int) -> np.ndarray:
        """The batch of a step, (B, T + 1): ids from a Zipf distribution, like words."""
        draws = np.random.default_rng((SEED, step)).zipf(1.2, (self.B, self.T + 1))
        return (draws % self.V).astype(np.int32)


SHAPES = {"tutorial": Shape(32, 128, 50_257, 1, 2, 0.33), "nanogpt": Shape(12, 64, 65, 25, 1.4)}


def tutorial(shape: Shape) -> Step:
    """The program of the JAX tutorial."""
    from benchmarks.baselines.tutorial import Tutorial

    program = Tutorial(shape.V, shape.T, 128, 4, 256, 4)

    def step(rows: np.ndarray) -> Callable[[], float]:
        program.step(rows[:, :-1].tolist())
        return program.wait

    return step


def nanogpt(shape: Shape) -> Step:
    """nanoGPT's choices in PyTorch."""
    from benchmarks.baselines.nanogpt import NanoGPT

    program = NanoGPT(shape.V, shape.T, 128, 4, 4)

    def step(rows: np.ndarray) -> Callable[[], float]:
        loss = program.step(rows)
        return lambda: loss

    return step


def settings(name: str):
    """The harness's settings for a shape."""
    from harness.presets import preset

    shape = SHAPES[name]
    config = dataclasses.replace(preset("tutorial"), vocab_size=shape.V, mesh="1x1")
    if name == "nanogpt":
        config = dataclasses.replace(
            config, context=shape.T, batch_size=shape.B, d_ff=512, norm="pre", norm_epsilon=1e-5, activation="gelu",
            bias=False, tied_head=True, head_bias=False, init="gpt2", dropout=0.0, weight_decay=0.1, beta2=0.99,
            clip_norm=1.0,
        )  # fmt: skip
    return config


def harness(name: str) -> Step:
    """The harness."""
    import jax

    from harness.training.sharding import make_mesh, put_batch
    from harness.training.train_step import make_step_functions

    config = settings(name)
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh)
    state = functions.init()

    def step(rows: np.ndarray) -> Callable[[], float]:
        nonlocal state
        state, metrics = functions.train_step(state, put_batch(rows, mesh))
        return lambda: float(jax.block_until_ready((metrics.loss, state))[0])

    return step


def serve(program: str, name: str) -> None:
    """Runs some steps for each line on stdin. Prints their time, the last loss and the peak memory as JSON."""
    shape = SHAPES[name]
    if program == "harness":
        keep_freed_memory()  # as the command does
    step = harness(name) if program == "harness" else {"tutorial": tutorial, "nanogpt": nanogpt}[name](shape)
    for number, _ in enumerate(sys.stdin):
        batches = [shape.rows(number * shape.steps + index) for index in range(shape.steps)]
        started = time.perf_counter()
        waits = [step(rows) for rows in batches]
        loss = waits[-1]()
        seconds = time.perf_counter() - started
        gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps({"seconds": seconds, "loss": loss, "gigabytes": gigabytes}), flush=True)


def main(name: str, rounds: int) -> None:
    """Runs both programs `rounds` times, alternately, and prints the comparison."""
    shape = SHAPES[name]
    done: dict[str, list[dict]] = {"harness": [], name: []}
    programs = {program: [__file__, "--serve", program, name] for program in done}
    for number, program, result in alternately(programs, rounds + 1):
        done[program].append(result)
        label = f"round {number}" if number else "compile"
        print(f"{label:<10}{program:<10}{result['seconds']:8.2f} s", flush=True)

    from harness.run.hardware import flops_per_token, product_rate

    flops = flops_per_token(settings(name))
    limit = product_rate("float32") / flops
    tokens = shape.B * shape.T * shape.steps
    speed = {
        program: tokens / statistics.median(each["seconds"] for each in rows[1:]) for program, rows in done.items()
    }
    memory = {program: rows[-1]["gigabytes"] for program, rows in done.items()}
    print(f"\n{'':<12}{'tokens/s':>10}{'of the limit':>14}{'first':>12}{'memory':>10}{'loss':>8}")
    for program, rows in done.items():
        print(f"{program:<12}{speed[program]:>10,.0f}{speed[program] / limit:>14.1%}{rows[0]['seconds']:>10.1f} s"
              f"{memory[program]:>7.2f} GB{rows[-1]['loss']:>8.3f}")  # fmt: skip
    print(
        f"limit       {limit:>10,.0f}  ({limit * flops / 1e9:,.0f} GFLOP/s in large products, {flops / 1e6:.1f} MFLOP "
        "per token)"
    )
    share = f", {memory['harness'] / memory[name]:.2f} of the memory (bar: {shape.memory})" if shape.memory else ""
    print(f"ratio: {speed['harness'] / speed[name]:.2f} times the tokens/s (bar: {shape.faster}){share}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
    else:
        only_smoke = smoke()
        words = [word for word in sys.argv[1:] if word in SHAPES]
        numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
        main(*(words or ["tutorial"]), *([1] if only_smoke else numbers or [6]))
