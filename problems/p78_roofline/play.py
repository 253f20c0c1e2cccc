"""Problem 78, played: what the learner's functions say of an H100, and of the machine that this runs on."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.p78_roofline.problem import H100, LLAMA_8B, QWEN_30B

ROWS = tuple(2**power for power in range(14))
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTH, FEW = 2048, (1, 4, 32, 256)
BATCH, CONTEXT, DEVICES = 64, 4096, 64


def play(module: LearnerModule) -> Exhibits:
    """The roofline of products, tokens per second by batch, the meshes of a training run, and products measured
    here."""
    curves = []
    for bits in (16, 4):
        times = [module.seconds("product", (rows, 8192, 8192), bits, dict(H100))[0] for rows in ROWS]
        done = [2 * rows * 8192**2 / float(each) / 1e12 for rows, each in zip(ROWS, times, strict=True)]
        curves.append(Line(f"{bits} bits", ROWS, done))
    top = max(curves[0].y)
    yield Lines(
        "Products of M rows with a large matrix on an H100",
        tuple(curves),
        "By your function. Each weight is read once for all rows, so more rows take hardly more time, until the "
        "arithmetic decides: then the roof is flat. Weights of 4 bits reach it with a quarter of the rows."
        if 0.95 * 989 < top <= 989
        else f"The roof should be at 989, the peak rate of the machine. Yours is at {top:,.0f}.",
        x="M",
        y="10^12 operations per second",
        log=True,
    )
    yield rates(module)
    yield meshes(module)
    yield here(module)


def rates(module: LearnerModule) -> Lines:
    """Tokens per second of a dense model and of a mixture of experts, by the batch."""
    found = {
        name: [float(module.decode_rate(dict(model), batch, 1024, dict(H100))) for batch in BATCHES]
        for name, model in (("Llama 8B", LLAMA_8B), ("Qwen3 30B-A3B", QWEN_30B))
    }
    dense, experts = found.values()
    return Lines(
        "Tokens per second of one H100, with contexts of 1,024 tokens",
        tuple(
            Line(name, [batch for batch, rate in zip(BATCHES, values, strict=True) if rate], [*filter(None, values)])
            for name, values in found.items()
        ),
        "For one text, the mixture of experts reads less and is faster. Soon each batch needs nearly all of its "
        "experts, and the dense model is ahead. Where a curve ends, the cache no longer fits."
        if experts[0] > dense[0] and experts[6] < dense[6] and not experts[-1]
        else "The mixture of experts should begin above the dense model, end below it, and not fit with 256 texts.",
        x="batch",
        y="tokens per second",
        log=True,
    )


def meshes(module: LearnerModule) -> Bars:
    """The step of a training run on each mesh."""
    arguments = dict(LLAMA_8B), BATCH, CONTEXT, dict(H100)
    times = {}
    for tensor in (1, 2, 4, 8):
        mesh = (DEVICES // tensor, tensor)
        times[mesh] = float(module.step_seconds(*arguments, mesh))
    best = tuple(int(each) for each in module.best_mesh(*arguments, DEVICES))
    first, shortest = times[DEVICES, 1], min(times, key=times.__getitem__)
    return Bars(
        f"A training step of Llama 8B on {DEVICES} H100, {BATCH} texts of {CONTEXT:,} tokens",
        tuple(Bar(f"{data} data, {tensor} tensor", each) for (data, tensor), each in times.items()),
        "seconds",
        f"Your best mesh is {best[0]} x {best[1]}. With few tokens for each device, gathers over the network take "
        f"longer than the arithmetic. Tensor parallelism within a node shortens the step from {first:.2f} s to "
        f"{times[shortest]:.2f} s; more of it waits for its sums."
        if best == shortest == (16, 4)
        else f"Your best mesh is {best[0]} x {best[1]}, and your shortest step that of {shortest[0]} x {shortest[1]}. "
        "Both should be 16 x 4.",
    )


def here(module: LearnerModule) -> Bars:
    """Products of NumPy on this machine, measured, beside what the learner's function says with the rates measured
    here."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)
    many = rng.standard_normal((1024, WIDTH)).astype(np.float32)
    times = {rows: measured(partial(np.matmul, many[:rows], matrix)) for rows in (*FEW, len(many))}
    # Rates of this machine: of the fastest product, and of one row, which does little but read the matrix.
    flops = max(2 * rows * WIDTH**2 / each for rows, each in times.items())
    bandwidth = matrix.nbytes / times[1]
    device = {**H100, "flops": flops, "bandwidth": bandwidth}
    bars = [
        Bar(
            f"{rows} row{'s' * (rows > 1)}",
            1000 * times[rows],
            1000 * float(module.seconds("product", (rows, WIDTH, WIDTH), 32, device)[0]),
        )
        for rows in FEW
    ]
    return Bars(
        f"Products with a {WIDTH:,} x {WIDTH:,} matrix on this machine",
        tuple(bars),
        "milliseconds",
        f"This machine does {flops / 1e9:,.0f} · 10⁹ operations and reads {bandwidth / 1e9:,.0f} · 10⁹ bytes per "
        "second in these products. A roofline is a lower limit: between its two ends, real programs are above it, "
        "because reading and computing do not overlap perfectly.",
        names=("measured", "by your function"),
        timed=True,
    )


def measured(work: Callable[[], Any], repeats: int = 7) -> float:
    """The shortest of a few times, in seconds."""
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
