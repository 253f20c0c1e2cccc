"""The probe of problem 16: the order of examples over epochs, over shards and after a resume. Runs in workers."""

import json
from collections.abc import Iterator
from typing import Any

import grain  # noqa: F401  every submission needs it: imported here, before the worker is confined
import numpy as np

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described
from grader.worker.subject import Reading, Subject

EPOCHS = 2
AFTER_RESUME = 3  # batches compared after a resume


def loading(subject: Subject, case: Case) -> Reading:
    """The examples read in two epochs of every shard, and whether a new loader with a saved state resumes at its position."""
    rows, B = case.values["rows"], case.values["batch_size"]
    shards = int(case.values["num_shards"])
    steps = len(rows) // shards // B
    stops = (0, 1, steps - 1, steps + 1)  # at the start, within an epoch, at its last batch, within the next
    states: dict[int, Any] = {}
    batches: list[list[Any]] = []
    for shard in range(shards):
        loader = _load(subject, case, shard)
        batches.append([])
        for step in range(EPOCHS * steps):
            if shard == 0 and step in stops:
                states[step] = loader.get_state()
            batches[-1].append(_batch(loader, rows, B))
    # Only now, after the loader has moved on: a state must not move with it.
    states = {step: _as_saved(state) for step, state in states.items()}
    # The numbers of the examples read: (epochs, shards, examples of a shard)
    order = (
        np.array([np.concatenate(of_shard)[:, 0] for of_shard in batches]).reshape(shards, EPOCHS, -1).swapaxes(0, 1)
    )
    again, other = _load(subject, case), _load(subject, case, seed=1)
    seeded = [np.array_equal(_batch(again, rows, B), batches[0][0])]
    seeded += [any(not np.array_equal(_batch(other, rows, B), batch) for batch in batches[0][:steps])]
    intact = [np.array_equal(rows[batch[:, 0] % len(rows)], batch) for of_shard in batches for batch in of_shard]
    resumed = [_resumed(subject, case, states[stop], stop, batches[0]) for stop in stops]
    return Reading(
        {
            "intact": np.int32(all(intact)),
            "times_seen": np.array(
                [np.bincount(epoch.ravel() % len(rows), minlength=len(rows)) for epoch in order], np.int32
            ),
            "shuffled.within_an_epoch": np.int32(any((np.diff(row) < 0).any() for row in order[0])),
            "shuffled.differently_each_epoch": np.int32(any((order[0] != epoch).any() for epoch in order[1:])),
            "shuffled.across_batches": np.int32(_mixed(order, B)),
            "seeded.same_seed_same_batches": np.int32(seeded[0]),
            "seeded.other_seed_other_batches": np.int32(seeded[1]),
            "resumed.at_batch": np.array([position for position, _ in resumed], np.int32),
            "resumed.continues": np.array([continues for _, continues in resumed], np.int32),
        }
    )


def _mixed(order: Any, B: int) -> bool:
    """Whether the batches of the first epoch hold other sets of examples than those of the second."""
    first, second = ({tuple(sorted(batch)) for batch in epoch.reshape(-1, B).tolist()} for epoch in order[:2])
    return first != second


def _as_saved(state: Any) -> Any:
    """A copy of the state as it would come back from disk."""
    return state if isinstance(state, bytes | str) else json.loads(json.dumps(state))


def _resumed(subject: Subject, case: Case, state: Any, stop: int, expected: list[Any]) -> tuple[int, bool]:
    """The number of the first batch after `set_state`, and whether it and the batches that follow are the expected ones.

    The number is -1 if the first loader never gave that batch.
    """
    loader = _load(subject, case)
    loader.set_state(state)
    rows, B = case.values["rows"], case.values["batch_size"]
    batches = [_batch(loader, rows, B) for _ in expected[stop:][:AFTER_RESUME]]
    position = next((i for i, batch in enumerate(expected) if np.array_equal(batch, batches[0])), -1)
    return position, all(map(np.array_equal, batches, expected[stop:]))


def _load(subject: Subject, case: Case, shard: int = 0, seed: int = 0) -> Any:
    values = case.values
    settings = (values["batch_size"], int(values["seed"]) + seed, shard, values["num_shards"])
    loader = subject.call("make_loader", values["rows"], *settings)
    for name in ("__next__", "get_state", "set_state"):
        if not hasattr(loader, name):
            raise BadOutputError(
                f"`make_loader` returned {described(loader)} without `{name}`; return a Grain iterator, or write that method"
            )
    return loader


def _batch(loader: Iterator[Any], rows: Any, B: int) -> Any:
    try:
        batch = next(loader)
    except StopIteration:
        raise BadOutputError("the loader ended; it must give batches without end, epoch after epoch") from None
    if np.shape(batch) != (B, rows.shape[1]):
        raise BadOutputError(f"a batch has shape {np.shape(batch)}; it must be (B, T) = {(B, rows.shape[1])}")
    return np.asarray(batch)


PROBES = {"loading": loading}
