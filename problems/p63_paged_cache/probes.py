"""The probe of problem 63: what a block manager does, event by event. Runs in workers."""

import ast
from typing import Any

import numpy as np

from grader.authoring import BadEntryError, BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p63_paged_cache.problem import NAMES

METHODS = ("start", "append", "fork", "free", "table", "free_blocks")
NONE, LONGEST = -1, 12  # blocks of a table that are compared


@eager
def managing(subject: Subject, case: Case) -> Reading:
    """After each event: whether it raised MemoryError, what `append` returned, all tables, and how many blocks are
    free."""
    manager = subject.call("BlockManager", case.values["num_blocks"], case.values["block_size"])
    for name in METHODS:
        if not callable(getattr(manager, name, None)):
            raise BadEntryError(f"`BlockManager` has no method `{name}`: write it, as the page says")
    events = ast.literal_eval(str(case.values["events"]))
    raised, returned = np.zeros(len(events), np.int32), np.full((len(events), 3), NONE, np.int32)
    tables, free = np.full((len(events), len(NAMES), LONGEST), NONE, np.int32), np.zeros(len(events), np.int32)
    live: list[str] = []
    for place, (kind, name, *more) in enumerate(events):
        if kind != "start" and name not in live:
            continue  # it could not begin
        try:
            result = getattr(manager, kind)(name, *more)
        except MemoryError:
            raised[place] = 1
        else:
            if kind == "append":
                returned[place] = _place(result)
            live = [each for each in live if (kind, name) != ("free", each)]
            live += [name] if kind == "start" else more if kind == "fork" else []
        for each in live:
            table = _table(manager.table(each), int(case.values["num_blocks"]))
            tables[place, NAMES.index(each), : len(table)] = table
        free[place] = int(manager.free_blocks())
    return Reading({"state.raised": raised, "state.returned": returned, "state.tables": tables, "state.free": free})


def _table(result: Any, num_blocks: int) -> list[int]:
    """The first blocks of a table. Raises BadOutputError if it holds something that is no block."""
    if not isinstance(result, list | tuple | np.ndarray):
        raise BadOutputError(f"`table` returned {described(result)}; it must return a list of blocks")
    blocks = [int(block) for block in result]
    if any(not 0 <= block < num_blocks for block in blocks):
        raise BadOutputError(
            f"`table` returned {blocks}; with {num_blocks} blocks, their numbers are 0 to {num_blocks - 1}"
        )
    return blocks[:LONGEST]


def _place(result: Any) -> list[int]:
    """The three numbers that `append` returns."""
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise BadOutputError(f"`append` returned {described(result)}; it must return the tuple (block, offset, source)")
    return [NONE if each is None else int(each) for each in result]


PROBES = {"managing": managing}
