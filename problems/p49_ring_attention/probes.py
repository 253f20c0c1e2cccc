"""Probes of problem 49: attention on a ring of eight CPU devices. Run in workers."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import (
    Arrays,
    BadOutputError,
    Execution,
    Given,
    Reading,
    Subject,
    cotangent,
    given,
    mesh_of,
    named,
)
from grader.problem import Case

DEVICES = 8
MOST_TURNS = 12  # eight turns of queries and a running softmax are as much as nine of keys and values
# With gradients: a backward pass may send keys and values around again, and with them the gradients of both.
MOST_TURNS_OF_BOTH = 3 * MOST_TURNS


def attention(subject: Subject, case: Case) -> Reading:
    """The output, and the gradient of a random projection of it with respect to queries, keys and values."""

    def program(arrays: Arrays) -> Arrays:
        def projected(arrays: Arrays) -> tuple[Any, Any]:
            output = _called(subject, arrays)
            return jnp.sum(cotangent("output", output) * output), output

        slopes, output = jax.grad(projected, has_aux=True)(arrays)
        both: Arrays = named(output, "output") | named(slopes, "gradient")
        return both

    return subject.run(program, case, _placed(case))


def forward(subject: Subject, case: Case) -> Reading:
    """The output."""
    return subject.run(lambda arrays: named(_called(subject, arrays), "output"), case, _placed(case))


def _placed(case: Case) -> dict[str, Given]:
    sharding = NamedSharding(mesh_of(DEVICES, axes=("context",)), PartitionSpec("context", None))
    return {name: replace(given(case, name), sharding=sharding) for name in ("q", "k", "v")}


def _called(subject: Subject, arrays: Arrays) -> Any:
    """Calls the entry. JAX's error on a loop whose state begins to vary is long, and names the learner's variables."""
    mesh = mesh_of(DEVICES, axes=("context",))
    try:
        # By name: JAX rebuilds a dictionary with its keys sorted, which puts k before q.
        q, k, v = (arrays[name] for name in "qkv")
        return subject.call("ring_attention", q, k, v, mesh, returns=(jax.Array, "one jax.Array"))
    except TypeError as error:
        if "varying" not in str(error):
            raise
        raise BadOutputError(
            "the state of the loop is equal on all devices before it, and varies after a turn: let the first state "
            "vary with "
            '`jax.lax.pcast(state, "context", to="varying")`, or pass `check_vma=False` to `shard_map`'
        ).with_traceback(error.__traceback__) from None


def exchanged(execution: Execution) -> dict[str, Any]:
    """The number of executed collectives of each other kind than a permutation, how far around the ring the longest of
    these sends, and how often all keys and values travel to a neighbor. As many as are allowed count alike."""
    found = dict.fromkeys(("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_broadcast"), 0)
    hops, sent = 0, Fraction(0)
    for each in execution.collectives:
        name = each.kind.replace("-", "_").removeprefix("ragged_")
        if name == "collective_permute":
            hops = max(hops, each.hops(DEVICES))
            sent += each.times * each.size * each.hops(DEVICES)
        else:
            found[name] += math.ceil(each.times)
    block = sum(execution.case.values[name].nbytes for name in ("k", "v")) // DEVICES
    slopes = any(name.startswith("gradient") for name in execution.compiled.program.outputs)
    found |= {"hops": hops, "turns": max(MOST_TURNS_OF_BOTH if slopes else MOST_TURNS, math.ceil(sent / block))}
    return {name: np.int64(count) for name, count in found.items()}


PROBES = {"attention": attention, "forward": forward}
MEASURES = {"exchanged": exchanged}
