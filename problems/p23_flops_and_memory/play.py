"""Problem 23, played: the learner's counts beside what the trained model really has and does."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Table
from problems.stage.model import gpt
from problems.stage.programs import compiled
from problems.stage.weights import POCKET

SIZES = (POCKET.vocab_size, POCKET.max_T, POCKET.d_model, POCKET.d_ff, POCKET.num_layers)
MODELS = {"this model": SIZES, "GPT-2 small": (50257, 1024, 768, 3072, 12), "GPT-2 XL": (50257, 1024, 1600, 6400, 48)}
CHIP, READS = 1e15, 3.3e12  # operations and bytes per second, about those of one large accelerator


def play(module: LearnerModule) -> Exhibits:
    """Counts and measurements of the trained model, where its work goes, and what larger ones need."""
    graph, state = nnx.split(gpt())
    program = compiled(
        lambda state, ids: nnx.merge(graph, state)(ids), state, jax.ShapeDtypeStruct((POCKET.max_T,), jnp.int32)
    )
    arrays = jax.tree.leaves(state)
    moments = jax.eval_shape(optax.adam(1e-3).init, state)
    held = 2 * sum(x.nbytes for x in arrays) + sum(
        x.size * x.dtype.itemsize for x in jax.tree.leaves(moments) if x.ndim
    )
    pairs = (
        ("parameters", module.count_parameters(*SIZES), sum(x.size for x in arrays)),
        (
            "operations of a token",
            module.forward_flops_per_token(*SIZES),
            program.cost_analysis()["flops"] / POCKET.max_T,
        ),
        ("bytes in training", module.training_bytes(*SIZES), held),
    )
    right = all(f"{yours:,.0f}" == f"{measured:,.0f}" for _, yours, measured in pairs[::2])
    yield Table(
        "The trained model, counted by you and measured",
        ("", "your count", "measured", "ratio"),
        tuple(
            (name, f"{yours:,.0f}", f"{measured:,.0f}", f"{yours / measured:.3f}") for name, yours, measured in pairs
        ),
        "You count the products, with the whole square of scores. The compiled program skips a part of the future, and "
        "also adds and normalizes, so its operations differ by a few percent."
        + ("" if right else " Parameters and bytes must be equal to the last number, and yours are not."),
    )
    total, without = module.forward_flops_per_token(*SIZES), module.forward_flops_per_token(*SIZES[:4], 0)
    scores = total - module.forward_flops_per_token(SIZES[0], 0, *SIZES[2:])
    yield Bars(
        "Where the operations of a token go",
        (
            Bar("the head", without / total),
            Bar("scores and sums", scores / total),
            Bar("all other products", 1 - (without + scores) / total),
        ),
        "share of your count",
        f"In this small model, the head and the scores are {(without + scores) / total:.0%} of the work that you "
        "count. In one of billions of parameters, the other products are nearly all of it.",
    )
    rows = []
    for name, sizes in MODELS.items():
        days = module.training_flops_per_token(*sizes) * 20 * module.count_parameters(*sizes) / (0.4 * CHIP) / 86400
        rows.append(
            (
                name,
                f"{module.count_parameters(*sizes):,}",
                f"{module.training_bytes(*sizes) / 2**30:.2g}",
                lasting(days),
            )
        )
    yield Table(
        "What your counts say of larger models",
        ("", "parameters", "GiB in training", "time to train"),
        tuple(rows),
        "On one accelerator of 10¹⁵ operations per second at a utilization of 40%, for 20 tokens per parameter. A "
        "model that is twice as large needs twice the tokens, so four times as long.",
    )

    if not hasattr(module, "decoding_seconds"):
        return
    sizes, rows = MODELS["GPT-2 XL"], []
    for batch in (1, 16, 256):
        arithmetic = batch * module.forward_flops_per_token(*sizes) / CHIP
        reading = module.decoding_bytes(batch, *sizes) / READS
        rate = batch / module.decoding_seconds(batch, CHIP, READS, *sizes)
        rows.append((f"{batch}", f"{1000 * arithmetic:.2g} ms", f"{1000 * reading:.2g} ms", f"{rate:,.0f}"))
    yield Table(
        "What decides how fast GPT-2 XL writes, by your counts",
        ("sequences", "arithmetic", "reading", "tokens per second"),
        tuple(rows),
        f"On that accelerator, which reads {READS / 1e12:g} · 10¹² bytes per second, a step takes the longer of the "
        "two. The parameters are read once for all sequences, so more of them at a time cost little, until their "
        "caches are most of what is read.",
    )


def lasting(days: float) -> str:
    """A time in words."""
    for unit, many in (("days", days), ("hours", days * 24), ("minutes", days * 24 * 60)):
        if many >= 1:
            return f"{many:.2g} {unit}"
    return f"{days * 24 * 3600:.2g} seconds"
