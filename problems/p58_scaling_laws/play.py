"""Problem 58, played: the learner's law of small models that are trained on the spot, tables of three neighboring
tokens."""

import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Table
from harness.data.pocket import stories
from problems.stage.weights import END, POCKET, TOKENIZER, held_out

V = POCKET.vocab_size
SIZES = (100, 300, 1_000, 3_000, 10_000)  # N: entries of a table
STORIES = (30, 100, 300, 1_000, 2_000)
ROUGHLY = 1e-3  # delta
BUDGETS = (10**7, 10**8, 10**9)


def play(module: LearnerModule) -> Exhibits:
    """Measured losses with the curves of the fitted law, the best sizes for some budgets, and a valley of equal
    budgets."""
    tokens = tokenized(STORIES[-1])
    read = tokenized(None)
    runs = []
    for count in STORIES:
        seen = tokens[: np.flatnonzero(tokens == END)[count - 1] + 1]
        runs += [(N, len(seen), loss(seen, N, read)) for N in SIZES]
    N, D, losses = (np.array(column, np.float64) for column in zip(*runs, strict=True))
    law = np.asarray(module.fit_scaling_law(N, D, losses, ROUGHLY), np.float64)
    said = np.asarray(
        module.predicted_loss(jnp.asarray(law, jnp.float32), jnp.asarray(N, jnp.float32), jnp.asarray(D, jnp.float32))
    )
    off = float(np.median(np.abs(np.log(np.maximum(said, 1e-9)) - np.log(losses))))
    lines = []
    for size in (SIZES[0], SIZES[2], SIZES[-1]):
        own = size == N
        lines += [
            Line(f"N = {size:,}, measured", D[own], losses[own]),
            Line(f"N = {size:,}, your law", D[own], said[own]),
        ]
    yield Lines(
        f"{len(runs)} tables, and the law that you fitted to them",
        tuple(lines),
        f"Half of the runs are within {off:.1%} of the law. A table of N entries learns from D tokens which token "
        f"follows two. The law: A = {np.exp(law[0]):.3g}, B = {np.exp(law[1]):.3g}, E = {np.exp(law[2]):.3g}, alpha = "
        f"{law[3]:.2f}, beta = {law[4]:.2f}.",
        x="tokens",
        y="loss, nats per token",
    )
    rows, bests = [], []
    for flops in BUDGETS:
        best = [float(each) for each in module.optimal_allocation(jnp.asarray(law, jnp.float32), float(flops), 6.0)]
        bests.append(best)
        loss_there = module.predicted_loss(jnp.asarray(law, jnp.float32), jnp.float32(best[:1]), jnp.float32(best[1:]))
        rows.append((f"{flops:.0e}", *(f"{each:,.0f}" for each in best), f"{float(loss_there[0]):.3f}"))
    yield Table(
        "What your law says about a budget, if each entry cost 6 operations per token",
        ("operations", "best N", "best D", "loss"),
        tuple(rows),
        "The smaller exponent gets the larger share: what lowers the loss more slowly must grow faster."
        if (law[3] < law[4]) == (bests[-1][0] / bests[0][0] > bests[-1][1] / bests[0][1])
        else "What has the smaller exponent lowers the loss more slowly, and should grow faster. Here it does not.",
    )
    budget = 6 * SIZES[2] * D.max() / 20
    sizes = [size for size in (100, 200, 400, 800, 1600) if budget / 6 / size <= len(tokens)]
    valley = np.array([loss(tokens[: int(budget / 6 / size)], size, read) for size in sizes])
    lowest = float(module.isoflop_minimum(jnp.asarray(sizes, jnp.float32), jnp.asarray(valley, jnp.float32)))
    yield Lines(
        f"Tables of equal budgets, N · D = {budget / 6:.1g}",
        (Line("measured", sizes, valley), Line("your minimum", (lowest, lowest), (valley.min(), valley.max()))),
        f"Your parabola has its vertex at N = {lowest:,.0f}.",
        x="entries of the table",
        y="loss, nats per token",
    )


def tokenized(count: int | None) -> np.ndarray:
    """The tokens of stories with end-of-text, end to end; without a count, of those that no table learns from."""
    rows = held_out(32) if count is None else [[*TOKENIZER.encode_ordinary(text), END] for text in stories(count)]
    return np.concatenate([np.asarray(row, np.int64) for row in rows])


def loss(seen: np.ndarray, N: int, read: np.ndarray) -> float:
    """The loss on `read` of a table with the N most frequent of three neighbors in `seen`; else two neighbors or one
    decide."""
    ones = (np.bincount(seen, minlength=V) + 1) / (len(seen) + V)
    before, pairs, triples = (packed(seen, n) for n in (1, 2, 3))
    kept, counts = np.unique(triples, return_counts=True)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:N])
    kept, counts = kept[chosen], counts[chosen]
    contexts, of_context = np.unique(kept // V, return_inverse=True)
    mass = np.bincount(of_context, counts)
    a, b, c = read[:-2], read[1:-1], read[2:]
    two = 0.8 * looked_up(pairs, b * V + c) / np.maximum(looked_up(before, b), 1) + 0.2 * ones[c]
    total = looked_up(pairs, a * V + b) + 1.0
    place = np.searchsorted(contexts, a * V + b).clip(max=max(len(contexts) - 1, 0))
    held = np.where(contexts[place] == a * V + b, mass[place], 0)
    at = np.searchsorted(kept, (a * V + b) * V + c).clip(max=len(kept) - 1)
    three = np.where(kept[at] == (a * V + b) * V + c, counts[at], 0)
    return float(-np.log(three / total + (1 - held / total) * two).mean())


def packed(ids: np.ndarray, n: int) -> np.ndarray:
    """Each run of n neighbors as one number."""
    return sum(ids[i : len(ids) - n + 1 + i] * V ** (n - 1 - i) for i in range(n))


def looked_up(numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How often each wanted number occurs."""
    values, counts = np.unique(numbers, return_counts=True)
    place = np.searchsorted(values, wanted).clip(max=len(values) - 1)
    return np.where(values[place] == wanted, counts[place], 0)
