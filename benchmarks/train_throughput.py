"""Training throughput: the harness and the program of the JAX tutorial on the same rows, with alternating steps.

    python benchmarks/train_throughput.py [ROUNDS] [--smoke] [--write]

4 blocks of width 128, feed-forward width 256, a vocabulary of 50,257, batches of 32 x 128 tokens. Each program runs in
its own process. The limit is the measured FLOP rate of large matrix products, divided by the FLOPs per token.
"""

import dataclasses
import resource
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count

import numpy as np
from timing import Run, alternately, answers

from harness.memory import keep_freed_memory
from harness.presets import preset

B, T, V = 32, 128, 50_257
CONFIG = dataclasses.replace(preset("tutorial"), vocab_size=V, mesh="1x1")
Step = Callable[[np.ndarray], float]  # an update on rows (B, T + 1); returns its loss


def tutorial() -> Step:
    """The program of the JAX tutorial."""
    from tutorial import Tutorial

    program = Tutorial(V, T, 128, 4, 256, 4)

    def step(rows: np.ndarray) -> float:
        program.step(rows[:, :-1].tolist())
        return program.wait()

    return step


def harness() -> Step:
    """The harness, as the command runs it."""
    import jax

    from harness.training.sharding import make_mesh, put_batch
    from harness.training.train_step import make_step_functions

    keep_freed_memory()
    mesh = make_mesh(CONFIG)
    functions = make_step_functions(CONFIG, mesh)
    state = functions.init()

    def step(rows: np.ndarray) -> float:
        nonlocal state
        state, metrics = functions.train_step(state, put_batch(rows, mesh))
        return float(jax.block_until_ready((metrics.loss, state))[0])

    return step


PROGRAMS: Mapping[str, Callable[[], Step]] = {"harness": harness, "tutorial": tutorial}


def serve(name: str) -> None:
    """Answers with the tokens/s of a step, its loss and the peak of the memory."""
    step, numbers = PROGRAMS[name](), count()

    def update() -> Mapping[str, float]:
        # Ids from a Zipf distribution, like words.
        rows = (np.random.default_rng((0, next(numbers))).zipf(1.2, (B, T + 1)) % V).astype(np.int32)
        started = time.perf_counter()
        loss = step(rows)
        speed = B * T / (time.perf_counter() - started)
        return {"tokens/s": speed, "loss": loss, "GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}

    answers(update)


def main() -> None:
    run = Run()
    found = alternately({name: [__file__, "--serve", name] for name in PROGRAMS}, run.rounds(6))

    from harness.run.hardware import flops_per_token, product_rate

    limit = product_rate("float32") / flops_per_token(CONFIG)
    speeds = {name: [each["tokens/s"] for each in rows[1:]] for name, rows in found.items()}
    memory = {name: rows[-1]["GB"] for name, rows in found.items()}
    for name in PROGRAMS:
        run.figure(name, speeds[name], "tokens/s")
        run.figure(f"{name}, memory", memory[name], "GB")
        run.figure(f"{name}, last loss", found[name][-1]["loss"])
    run.ratio(speeds, "harness", "tutorial", at_least=3.3)
    run.figure("memory, harness / tutorial", memory["harness"] / memory["tutorial"], at_most=1 / 3)
    run.figure("harness, of the limit", [speed / limit for speed in speeds["harness"]], at_least=0.65)
    run.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
