"""The probe of problem 16: the order of examples over epochs, over shards and after a resume. Runs in workers."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import grain  # every submission needs it: imported here, before the worker is confined
import numpy as np

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager, new_folder
from grader.problem import Case

EPOCHS = 3
# Added to the seed: one of them keeps it odd or even, and one its remainder by each number up to twenty.
OTHER_SEEDS = (1, 2, 232_792_560)
STATES = "states"
KINDS: Mapping[str, type] = {"bytes": bytes, "str": str, "json": object}  # how a state is written to a file

THREADS, AHEAD = 2, 4  # of a loader that asks for threads, and the batches that it reads ahead, at most


def _without_threads(probe: Callable[..., Reading]) -> Callable[..., Reading]:
    """The probe, in which Grain's default is to read without threads, as Grain advises for rows that are in memory.

    By Grain's own default, each loader starts 16 threads that read 500 batches ahead. They contend for one lock, for a
    second or more for each loader, and a probe makes a dozen loaders. Who asks for threads gets few. The batches are
    the same.
    """
    options: Any = grain.ReadOptions
    defaults, check = options.__init__.__defaults__, options.__post_init__

    def limited(self: Any) -> None:
        check(self)
        self.num_threads = min(int(self.num_threads), THREADS)
        self.prefetch_buffer_size = min(int(self.prefetch_buffer_size), AHEAD)

    @wraps(probe)
    def run(*args: Any, **kwargs: Any) -> Reading:
        options.__init__.__defaults__, options.__post_init__ = (0, 0), limited
        try:
            return probe(*args, **kwargs)
        finally:
            options.__init__.__defaults__, options.__post_init__ = defaults, check

    return run


@eager
@_without_threads
def loading(subject: Subject, case: Case) -> Reading:
    """Three epochs of batches of every shard, (shards, steps, B, T), and those of new loaders with the same seed.

    Also one epoch of every shard with each of some other seeds, (shards, seeds, steps, B, T), and the states that the
    loaders had at some batches, in a folder.
    """
    _B, steps, stops = _plan(case)
    states: dict[int, Any] = {}
    batches = []
    shards = range(int(case.values["num_shards"]))
    for shard in shards:
        loader = _load(subject, case, shard)
        for step in range(EPOCHS * steps):
            if step in stops and shard == _resumed(case, step):
                states[step] = loader.get_state()
            batches.append(_batch(loader, case))
        _batch(loader, case)  # a loader never ends
    again = _load(subject, case)
    others = [[_load(subject, case, shard, seed) for seed in OTHER_SEEDS] for shard in shards]
    folder = new_folder() / STATES
    folder.mkdir()
    # Only now, after the loader has moved on: a state must not move with it.
    for step, state in states.items():
        name = next(kind for kind in KINDS if isinstance(state, KINDS[kind]))
        (folder / f"{step}.{name}").write_bytes(state if isinstance(state, bytes) else _text(state).encode())
    arrays = {
        "batches": np.array(batches).reshape(-1, EPOCHS * steps, *batches[0].shape),
        "again": np.array([_batch(again, case) for _ in range(EPOCHS * steps)]),
        "others": np.array([[[_batch(one, case) for _ in range(steps)] for one in seeds] for seeds in others]),
    }
    return Reading(arrays, files=folder)


@eager
@_without_threads
def resuming(subject: Subject, case: Case) -> Reading:
    """The batches of new loaders that receive the saved states. In a process that has nothing but these."""
    arrays: Arrays = {}
    _B, steps, stops = _plan(case)
    for i, step in enumerate(stops):
        (path,) = (subject.received or Path()).glob(f"{STATES}/{step}.*")
        data = path.read_bytes()
        read: dict[str, Callable[[bytes], Any]] = {"bytes": bytes, "str": bytes.decode, "json": json.loads}
        state = read[path.suffix[1:]](data)
        loader = _load(subject, case, _resumed(case, step))
        loader.set_state(state)
        arrays[f"resumed.{i}"] = np.array([_batch(loader, case) for _ in range(step, EPOCHS * steps)])
    return Reading(arrays)


def read_resumed(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """The number of the first batch after each resume, and whether it and those that follow are the expected ones."""
    positions, continues = [], []
    for i, stop in enumerate(_plan(case)[2]):
        first, resumed = arrays["saved:batches"][_resumed(case, stop)], arrays[f"resumed.{i}"]
        # Batches may repeat, which is for another check to say: the right one comes first.
        numbers = (stop, *range(len(first)))
        positions.append(next((n for n in numbers if np.array_equal(first[n], resumed[0])), -1))
        continues.append(np.array_equal(resumed, first[stop:]))
    return Reading(
        {"resumed.at_batch": np.array(positions, np.int32), "resumed.continues": np.array(continues, np.int32)}
    )


def read(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """Whether the batches that a loader gave have the properties of a right one."""
    rows = np.asarray(case.values["rows"])
    B, steps, _stops = _plan(case)
    batches = arrays["batches"]
    numbers = batches[..., 0].astype(np.int64) % len(rows)  # of the examples read
    order = numbers.reshape(len(batches), EPOCHS, -1)  # (shards, epochs, examples of a shard)
    pairs = [pair for shard in order for pair in itertools.combinations(shard, 2)]
    runs = [[first[:steps], *others] for first, others in zip(batches, arrays["others"], strict=True)]
    return Reading(
        {
            "intact.whole_rows": np.int32(np.array_equal(rows[numbers], batches)),
            "intact.int32": np.int32(batches.dtype == np.int32),
            "times_seen": np.array(
                [np.bincount(epoch.ravel(), minlength=len(rows)) for epoch in order.swapaxes(0, 1)], np.int32
            ),
            "shuffled.within_an_epoch": np.int32((np.diff(order) < 0).any(-1).all()),
            "shuffled.differently_each_epoch": np.int32(not any(np.array_equal(*pair) for pair in pairs)),
            "shuffled.other_neighbors": np.int32(all(_apart(*pair) for pair in pairs)),
            "shuffled.across_batches": np.int32(all(_mixed(*pair, B) for pair in pairs)),
            "seeded.same_seed_same_batches": np.int32(np.array_equal(arrays["again"], batches[0])),
            "seeded.other_seed_other_batches": np.int32(
                not any(np.array_equal(*pair) for shard in runs for pair in itertools.combinations(shard, 2))
            ),
        }
    )


def _text(state: Any) -> str:
    try:
        return state if isinstance(state, str) else json.dumps(state)
    except (TypeError, ValueError) as error:
        raise BadOutputError(f"`get_state` returned {described(state)}, which `json.dumps` refuses: {error}") from None


def _plan(case: Case) -> tuple[int, int, tuple[int, ...]]:
    """The batch size, the steps of an epoch, and the steps at which the state is saved."""
    rows, shards, B = np.shape(case.values["rows"])[0], int(case.values["num_shards"]), int(case.values["batch_size"])
    steps = rows // shards // B
    # At the start, within an epoch, before and after its last batch, and within the two epochs that follow.
    return B, steps, (0, 1, steps - 1, steps, steps + 1, 2 * steps + 1)


def _resumed(case: Case, stop: int) -> int:
    """The shard whose loader is resumed at this stop: each in turn."""
    return _plan(case)[2].index(stop) % int(case.values["num_shards"])


def _mixed(first: Any, second: Any, B: int) -> bool:
    """Whether the batches of one epoch of a shard hold other sets of examples than those of another."""
    first, second = ({tuple(sorted(batch)) for batch in epoch.reshape(-1, B).tolist()} for epoch in (first, second))
    return bool(first != second)


def _apart(first: Any, second: Any) -> bool:
    """Whether most examples that come one after the other in an epoch of a shard do not in another: two of them do by
    chance."""
    first, second = ({frozenset(pair) for pair in itertools.pairwise(epoch.tolist())} for epoch in (first, second))
    return 2 * len(first & second) < len(first)


def _load(subject: Subject, case: Case, shard: int = 0, seed: int = 0) -> Any:
    values = case.values
    settings = (values["batch_size"], int(values["seed"]) + seed, shard, values["num_shards"])
    loader = subject.call("make_loader", values["rows"], *settings)
    for name in ("__next__", "get_state", "set_state"):
        if not hasattr(loader, name):
            raise BadOutputError(
                f"`make_loader` returned {described(loader)} without `{name}`; return a Grain iterator, or write that "
                "method"
            )
    return loader


def _batch(loader: Iterator[Any], case: Case) -> Any:
    shape = (case.values["batch_size"], np.shape(case.values["rows"])[1])
    try:
        batch = next(loader)
    except StopIteration:
        raise BadOutputError("the loader ended; it must give batches without end, epoch after epoch") from None
    if np.shape(batch) != shape:
        raise BadOutputError(f"a batch has shape {np.shape(batch)}; it must be (B, T) = {shape}")
    return np.asarray(batch)


PROBES = {"loading": loading, "resuming": resuming}
READERS = {"loading": read, "resuming": read_resumed}
