"""What lies on which of eight devices, and what a program sends between them, as exhibits."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from grader.authoring import collectives
from grader.exhibits import Bar, Bars, HeatMap, Line, Lines, Plane
from problems.stage import runs

NAMES = {
    "all-reduce": "sum (all-reduce)",
    "all-gather": "gather (all-gather)",
    "reduce-scatter": "sum a part (reduce-scatter)",
    "collective-permute": "send on (permute)",
    "all-to-all": "exchange (all-to-all)",
}


def placed(title: str, arrays: Sequence[tuple[str, jax.Array]], caption: str = "") -> HeatMap:
    """Which part of each array is on each device: the rows and columns that it holds, shaded by its share of the
    array."""
    devices = jax.devices()
    shares, texts = [], []
    for _, array in arrays:
        shards = {shard.device: shard for shard in array.addressable_shards}
        shares.append([shards[each].data.size / max(array.size, 1) if each in shards else 0.0 for each in devices])
        texts.append([_part(array, shards[each].index) if each in shards else "" for each in devices])
    return HeatMap(
        title,
        tuple(name for name, _ in arrays),
        tuple(str(device.id) for device in devices),
        (Plane(shares, "", texts),),
        caption,
        "share of the array on each device",
    )


def _part(array: jax.Array, index: Any) -> str:
    """Which part of an array an index is, in a few letters: `3/8 ↓` is the third eighth of its rows, `→` of its
    columns."""
    parts = []
    for axis, (size, where) in enumerate(zip(array.shape, index, strict=True)):
        start, stop = where.start or 0, size if where.stop is None else where.stop
        if stop - start < size:
            parts.append(
                f"{start // (stop - start) + 1}/{size // (stop - start)}{'→' if axis == array.ndim - 1 else '↓'}"
            )
    return " ".join(parts) or "all"


def is_cut(array: jax.Array, axis: int, parts: int) -> bool:
    """Whether each device holds one of so many parts of an array along this axis, and all of the other axes."""
    shape = list(array.shape)
    shape[axis] //= parts
    return all(shard.data.shape == tuple(shape) for shard in array.addressable_shards)


def bytes_on_each(arrays: Sequence[jax.Array]) -> np.ndarray:
    """The bytes of these arrays on each device."""
    total = dict.fromkeys(jax.devices(), 0)
    for array in arrays:
        for shard in array.addressable_shards:
            total[shard.device] += shard.data.nbytes
    return np.array(list(total.values()))


def held(title: str, arrays: Sequence[jax.Array], caption: str = "") -> Bars:
    """The bytes of these arrays on the fullest and on the emptiest device, beside their bytes in all."""
    each, whole = bytes_on_each(arrays), sum(array.nbytes for array in arrays)
    bars = (Bar("fullest device", int(each.max()), whole), Bar("emptiest device", int(each.min()), whole))
    return Bars(title, bars, "bytes", caption, names=("held", "in all"))


def fullest_share(held: Bars) -> float:
    """The share of the bytes in all that the fullest device holds, in an exhibit by `held`."""
    fullest = held.bars[0]
    return fullest.value / (fullest.other or 1)


def sent(title: str, compiled: Any, caption: str = "", limit: int = 12) -> Bars:
    """What the devices exchange in a compiled program, in its order: a bar for each collective, as long as its bytes.
    The caption is for a program that sends something."""
    found = [each for each in collectives(compiled.as_text(), len(jax.devices())) if not each.is_small]
    names = [
        NAMES.get(each.kind, each.kind) + (f" × {float(each.times):.0f}" if each.times > 1 else "") for each in found
    ]
    sizes = [math.ceil(each.times * each.size) for each in found]
    bars = [Bar(f"{number}. {name}", size) for number, (name, size) in enumerate(zip(names, sizes, strict=True), 1)]
    if len(bars) > limit:
        bars = [*bars[:limit], Bar(f"{len(bars) - limit} more", sum(sizes[limit:]))]
    unit = "bytes of the result on a device, in the program's order"
    if not bars:
        caption = "The devices send each other nothing: each works alone, with what it holds."
    if any(each.kind == "all-to-all" for each in found):
        caption += (
            " In an exchange, an array that is cut along one axis becomes one that is cut along another: each device "
            "sends a piece of its part to every other one."
        )
    return Bars(title, tuple(bars) or (Bar("nothing", 0),), unit, caption)


def turns(function: Any, *arrays: Any) -> list[list[int]]:
    """Whose blocks each device holds, at the start and after each permutation that a traced function makes."""
    holds = list(range(len(jax.devices())))
    rows = [holds]
    for pairs in _permutations(jax.make_jaxpr(function)(*arrays).jaxpr, len(holds) - 1):
        sender = {to: source for source, to in pairs}
        holds = [holds[sender[device]] if device in sender else device for device in range(len(holds))]
        rows.append(holds)
    return rows


def _permutations(jaxpr: Any, unknown: int) -> list[Any]:
    """The permutations of a program in order, those in loops as often as these turn: `unknown` times if that is not
    said.

    Keys and values are sent one after the other, by the same permutation: it counts once.
    """
    found: list[Any] = []
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        if name == "ppermute" and (
            not found or (found[-1] is not parameters["perm"] and found[-1] != parameters["perm"])
        ):
            found.append(parameters["perm"])
        inner = [getattr(each, "jaxpr", each) for value in parameters.values() for each in _listed(value)]
        times = parameters["length"] if name == "scan" else unknown if name == "while" else 1
        for each in inner:
            if hasattr(each, "eqns"):
                found += _permutations(each, unknown) * times
    return found


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else (value,)


def step(train: Callable[..., Any], model: Any, optimizer: Any, ids_BT: jax.Array, pad: int, caption: str) -> Bars:
    """What the devices send in one train step."""
    graph, state = nnx.split((model, optimizer))

    def run(state: Any, ids_BT: jax.Array) -> Any:
        model, optimizer = nnx.merge(graph, state)
        loss = train(model, optimizer, ids_BT, pad)
        return loss, nnx.state((model, optimizer))

    return sent("What the devices send in your step", jax.jit(run).lower(state, ids_BT).compile(), caption)


def losses(
    train: Callable[..., Any], model: Any, optimizer: Any, ids_BT: jax.Array, pad: int, steps: int = 12
) -> Lines:
    """The losses of train steps on one batch, beside those of the same run on one device."""
    found = [float(train(model, optimizer, ids_BT, pad)) for _ in range(steps)]
    alone, whole_BT = runs.make(), np.asarray(ids_BT)
    plain = [float(runs.step(*alone, whole_BT, np.zeros(whole_BT.shape))) for _ in range(steps)]
    most = int(bytes_on_each(jax.tree.leaves(nnx.state((model, optimizer)))).max())
    apart, numbers = float(np.abs(np.subtract(found, plain)).max()), np.arange(1, steps + 1)
    return Lines(
        "The loss of your steps, all on the same stories",
        (Line("eight devices", numbers, found), Line("one device", numbers, plain)),
        (
            "Both curves lie on each other: together, the devices take the step that one would take. "
            if apart < 0.01
            else f"The curves are up to {apart:.2g} apart: together, the devices take another step than one would "
            "take. "
        )
        + f"Afterwards, a device holds {most:,} bytes of model and optimizer.",
    )
