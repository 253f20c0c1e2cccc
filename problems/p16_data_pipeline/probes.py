"""What problem 16 looks at: the order of examples over epochs, shards and a resume. Runs in workers."""

import json
from collections.abc import Iterator
from typing import Any

import grain  # noqa: F401  imported before the confinement, as every submission needs it
import numpy as np

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described
from grader.worker.subject import Reading, Subject

EPOCHS = 2
ON = 3  # batches looked at after a resume


def loading(subject: Subject, case: Case) -> Reading:
    """What was seen in two epochs of every shard, and whether a loader that is given another's state goes on from it."""
    rows, B = case.values["rows"], case.values["batch_size"]
    shards = int(case.values["num_shards"])
    steps = len(rows) // shards // B
    stops = (0, 1, steps - 1, steps + 1)  # within an epoch, into the next one, and within that
    states: dict[int, Any] = {}
    batches: list[list[Any]] = []
    for shard in range(shards):
        loader = _load(subject, case, shard)
        batches.append([])
        for step in range(EPOCHS * steps):
            if shard == 0 and step in stops:
                states[step] = _as_saved(loader.get_state())
            batches[-1].append(_batch(loader, rows, B))
    # (epochs, shards, examples of a shard) -> their numbers
    order = np.array([np.concatenate(found)[:, 0] for found in batches]).reshape(shards, EPOCHS, -1).swapaxes(0, 1)
    numbers = [np.sort(epoch.ravel()) for epoch in order]
    again, other = _load(subject, case), _load(subject, case, seed=1)
    seeded = [np.array_equal(_batch(again, rows, B), batches[0][0])]
    seeded += [any(not np.array_equal(_batch(other, rows, B), batch) for batch in batches[0][:steps])]
    intact = [np.array_equal(rows[batch[:, 0] % len(rows)], batch) for found in batches for batch in found]
    resumed = [_resumed(subject, case, states[stop], stop, batches[0]) for stop in stops]
    return Reading(
        {
            "intact": np.int32(all(intact)),
            "times_seen": np.array(
                [np.bincount(found % len(rows), minlength=len(rows)) for found in numbers], np.int32
            ),
            "shuffled.within_an_epoch": np.int32(any((np.diff(row) < 0).any() for row in order[0])),
            "shuffled.anew_in_each": np.int32(any((order[0] != epoch).any() for epoch in order[1:])),
            "shuffled.across_batches": np.int32(_mixed(order, B)),
            "seeded.same_again": np.int32(seeded[0]),
            "seeded.others_differ": np.int32(seeded[1]),
            "resumed.at_batch": np.array([place for place, _ in resumed], np.int32),
            "resumed.and_goes_on": np.array([goes_on for _, goes_on in resumed], np.int32),
        }
    )


def _mixed(order: Any, B: int) -> bool:
    """Whether the batches of one epoch are made up of other examples than those of the next."""
    first, second = ({tuple(sorted(batch)) for batch in epoch.reshape(-1, B).tolist()} for epoch in order[:2])
    return first != second


def _as_saved(state: Any) -> Any:
    """As it will come back from disk: a state that is the live object itself would move on with the loader."""
    return state if isinstance(state, bytes | str) else json.loads(json.dumps(state))


def _resumed(subject: Subject, case: Case, state: Any, stop: int, expected: list[Any]) -> tuple[int, bool]:
    """At which batch a fresh loader goes on that is told where another stopped, and whether it then goes on as that did."""
    loader = _load(subject, case)
    loader.set_state(state)
    rows, B = case.values["rows"], case.values["batch_size"]
    found = [_batch(loader, rows, B) for _ in expected[stop:][:ON]]
    place = next((i for i, batch in enumerate(expected) if np.array_equal(batch, found[0])), -1)
    return place, all(map(np.array_equal, found, expected[stop:]))


def _load(subject: Subject, case: Case, shard: int = 0, seed: int = 0) -> Any:
    values = case.values
    how = (values["batch_size"], int(values["seed"]) + seed, shard, values["num_shards"])
    loader = subject.call("make_loader", values["rows"], *how)
    for name in ("__next__", "get_state", "set_state"):
        if not hasattr(loader, name):
            raise BadOutputError(
                f"`make_loader` returned {described(loader)} without `{name}`; return an iterator of Grain's"
            )
    return loader


def _batch(loader: Iterator[Any], rows: Any, B: int) -> Any:
    try:
        batch = next(loader)
    except StopIteration:
        raise BadOutputError("the loader ended; it must go on for ever, epoch after epoch") from None
    if np.shape(batch) != (B, rows.shape[1]):
        raise BadOutputError(f"a batch has shape {np.shape(batch)}; it must be (B, T) = {(B, rows.shape[1])}")
    return np.asarray(batch)


PROBES = {"loading": loading}
