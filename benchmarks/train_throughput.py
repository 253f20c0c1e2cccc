"""Training throughput: the harness and the JAX tutorial's program, on the same shape and rows, with alternating steps.

    python benchmarks/train_throughput.py [ROUNDS]

The shape: 4 blocks of width 128, feed-forward width 256, a vocabulary of 50,257, batches of 32 x 128 tokens. Each program
runs in its own process and takes one step per request, so both run under the same load. The bars: at least 2 times the
tutorial's tokens/s in at most a third of its memory. The limit is the measured FLOP rate of large matrix products, divided by
the FLOPs per token.
"""

import dataclasses
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
B, T, V = 32, 128, 50_257
SEED = 0


def rows(step: int) -> np.ndarray:
    """The batch of a step, (B, T + 1): ids from a Zipf distribution, like words."""
    draws = np.random.default_rng((SEED, step)).zipf(1.2, (B, T + 1))
    return (draws % V).astype(np.int32)


def tutorial():
    """A function that runs one step of the tutorial's program and returns its loss."""
    from benchmarks.baselines.tutorial import Tutorial

    program = Tutorial(V, T, 128, 4, 256, 4)

    def step(number: int) -> float:
        program.step(rows(number)[:, :-1].tolist())
        return program.wait()

    return step


def harness():
    """A function that runs one step of the harness and returns its loss."""
    import jax

    from harness.presets import preset
    from harness.training.sharding import make_mesh, put_batch
    from harness.training.train_step import make_step_functions

    config = dataclasses.replace(preset("tutorial"), vocab_size=V, mesh="1x1")
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh)
    state = functions.init()

    def step(number: int) -> float:
        nonlocal state
        state, metrics = functions.train_step(state, put_batch(rows(number), mesh))
        jax.block_until_ready(state)
        return float(metrics.loss)

    return step


PROGRAMS = {"harness": harness, "tutorial": tutorial}


def serve(name: str) -> None:
    """Runs a step for each line on stdin. Prints its time, its loss and the peak memory as JSON."""
    step = PROGRAMS[name]()
    for number, _ in enumerate(sys.stdin):
        started = time.perf_counter()
        loss = step(number)
        seconds = time.perf_counter() - started
        gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps({"seconds": seconds, "loss": loss, "gigabytes": gigabytes}), flush=True)


def main(rounds: int) -> None:
    """Runs `rounds` steps of both programs, alternately, and prints the comparison."""
    children = {
        name: subprocess.Popen([sys.executable, __file__, "--serve", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})
        for name in PROGRAMS
    }  # fmt: skip
    steps: dict[str, list[dict]] = {name: [] for name in PROGRAMS}
    for number in range(rounds + 1):
        for name, child in children.items():
            child.stdin.write("step\n")
            child.stdin.flush()
            steps[name].append(json.loads(child.stdout.readline()))
            print(
                f"{'compile' if number == 0 else f'step {number}':<10}{name:<10}{steps[name][-1]['seconds']:8.2f} s",
                flush=True,
            )
    for child in children.values():
        child.stdin.close()
        child.wait()

    from harness.presets import preset
    from harness.run.hardware import flops_per_token, peak_flops

    flops = flops_per_token(dataclasses.replace(preset("tutorial"), vocab_size=V))
    limit = peak_flops("float32") / flops
    speed = {name: B * T / statistics.median(step["seconds"] for step in done[1:]) for name, done in steps.items()}
    memory = {name: done[-1]["gigabytes"] for name, done in steps.items()}
    print(f"\n{'':<12}{'tokens/s':>10}{'of the limit':>14}{'first step':>12}{'memory':>10}{'loss':>8}")
    for name, done in steps.items():
        print(f"{name:<12}{speed[name]:>10,.0f}{speed[name] / limit:>14.1%}{done[0]['seconds']:>10.1f} s{memory[name]:>7.2f} GB"
              f"{done[-1]['loss']:>8.3f}")  # fmt: skip
    print(
        f"limit       {limit:>10,.0f}  ({limit * flops / 1e9:,.0f} GFLOP/s in large products, {flops / 1e6:.1f} MFLOP per token)"
    )
    print(f"ratio: {speed['harness'] / speed['tutorial']:.2f} times the tokens/s (bar: 2), "
          f"{memory['harness'] / memory['tutorial']:.2f} of the memory (bar: 0.33)")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
