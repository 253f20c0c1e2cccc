"""The probes of problem 64: a simulated server step by step, and the answers of a real loop. Run in workers."""

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from grader.authoring import BadEntryError, BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p64_continuous_batching.problem import END, NAMES, V, drawn

METHODS = ("add", "schedule", "append", "finish", "free_blocks")
NONE, LONGEST, MOST, COMPARED = -1, 10, 300, 60  # tokens of an answer, steps, calls of `run`


def _scheduler(subject: Subject, case: Case) -> Any:
    sizes = (case.values[name] for name in ("num_blocks", "block_size", "token_budget", "max_running"))
    scheduler = subject.call("Scheduler", *sizes)
    for name in METHODS:
        if not callable(getattr(scheduler, name, None)):
            raise BadEntryError(f"`Scheduler` has no method `{name}`: write it, as the page says")
    return scheduler


@eager
def scheduling(subject: Subject, case: Case) -> Reading:
    """In each step, where `schedule` starts each sequence and how many tokens it computes, and how many blocks are
    free."""
    scheduler, steps = _scheduler(subject, case), int(case.values["steps"])
    requests = ast.literal_eval(str(case.values["requests"]))
    tokens: dict[str, int] = {}
    last: dict[str, int] = {}
    found, free = np.full((steps, len(NAMES), 2), NONE, np.int32), np.zeros(steps, np.int32)
    for step in range(steps):
        for arrival, name, prompt, answer, given_up in requests:
            if arrival == step:
                scheduler.add(name, prompt)
                tokens[name], last[name] = prompt, prompt + answer - 1
            if given_up == step and name in tokens:
                scheduler.finish(name)
                del tokens[name]
        for name, start, count in _work(scheduler.schedule(), tokens):
            found[step, NAMES.index(name)] = start, count
            if start + count >= tokens[name]:
                if tokens[name] == last[name]:
                    scheduler.finish(name)
                    del tokens[name]
                else:
                    scheduler.append(name)
                    tokens[name] += 1
        free[step] = int(scheduler.free_blocks())
    return Reading({"steps.work": found, "steps.free": free})


def _work(result: Any, tokens: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """What `schedule` returned. Raises BadOutputError if it is not a list of (name, start, count), or names a sequence
    twice."""
    if not isinstance(result, list | tuple):
        raise BadOutputError(f"`schedule` returned {described(result)}; it must return a list of (name, start, count)")
    work: list[tuple[str, int, int]] = []
    for each in result:
        if not isinstance(each, tuple | list) or len(each) != 3:
            raise BadOutputError(f"the list of `schedule` holds {described(each)}; it must hold (name, start, count)")
        name, start, count = each
        if name not in tokens:
            raise BadOutputError(f"`schedule` returned work for {name!r}, which is not a sequence that waits or runs")
        if any(name == other for other, _, _ in work):
            raise BadOutputError(
                f"`schedule` returned {name!r} twice; a sequence is at most once in the work of a step"
            )
        work.append((name, int(start), int(count)))
    return work


class _Watched:
    """A scheduler that counts its steps. Raises BadOutputError in a loop that never ends."""

    def __init__(self, scheduler: Any):
        self.scheduler, self.steps = scheduler, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scheduler, name)

    def schedule(self) -> Any:
        self.steps += 1
        if self.steps > MOST:
            raise BadOutputError(f"`serve` has taken {MOST} steps, and it does not end")
        return self.scheduler.schedule()


class Model:
    """A model with a cache, whose next token depends on all tokens that it was given, and on a number that nobody else
    knows, nor finds out from the tokens. It records each batch."""

    def __init__(self, case: Case):
        self.salt = int(np.asarray(case.values["salt"])[0])
        self.caches: dict[str, list[int]] = {}
        self.batches = np.full((COMPARED, len(NAMES), 2), NONE, np.int32)
        self.calls = self.tokens = 0

    def answer(self, question: list[list[Any]]) -> dict[str, int]:
        """The next token of each sequence of a batch, which holds (name, start, token_ids)."""
        following = {}
        if self.calls >= MOST:
            raise BadOutputError(f"`serve` has called `run` {MOST} times, and it does not end")
        for name, start, token_ids in question:
            if self.calls < COMPARED and name in NAMES:
                self.batches[self.calls, NAMES.index(name)] = start, len(token_ids)
            known = self.caches.get(name, [])[:start]
            known += [V] * (start - len(known)) + token_ids
            self.caches[name] = known
            following[name] = drawn(self.salt, known)
        self.calls += 1
        self.tokens += sum(len(token_ids) for _, _, token_ids in question)
        return following

    def arrays(self) -> dict[str, Any]:
        return {
            "served.batches": self.batches,
            "served.calls": np.int32(self.calls),
            "served.tokens": np.int32(self.tokens),
        }


@eager
def serving(subject: Subject, case: Case) -> Reading:
    """The answers of `serve` with a model in another process."""
    requests = ast.literal_eval(str(case.values["requests"]))

    def run(batch: Any) -> dict[str, int]:
        some = list(batch)
        if not some:
            raise BadOutputError("`serve` has called `run` without any work")
        for each in some:
            if not isinstance(each, tuple | list) or len(each) != 3 or not hasattr(each[2], "__len__"):
                raise BadOutputError(
                    f"the batch of `run` holds {described(each)}; it must hold (name, start, token_ids)"
                )
        question: list[Any] = [
            [str(name), int(start), [int(token_id) for token_id in ids]] for name, start, ids in some
        ]
        if any(start < 0 for _, start, _ in question):
            raise BadOutputError("the batch of `run` holds a start below 0")
        return dict(subject.ask(question))

    scheduler = _Watched(_scheduler(subject, case))
    result = subject.call("serve", run, requests, scheduler, END, returns=(dict, "a dictionary of lists"))
    answers = np.full((len(NAMES), LONGEST), NONE, np.int32)
    for name, token_ids in result.items():
        if name not in NAMES:
            raise BadOutputError(f"`serve` returned an answer to {name!r}, which nobody asked")
        some = [int(token_id) for token_id in token_ids][:LONGEST]
        answers[NAMES.index(name), : len(some)] = some
    answered = np.array([name in result for name in NAMES], np.int32)
    return Reading({"served.answered": answered, "served.answers": answers})


PROBES = {"scheduling": scheduling, "serving": serving}
PARTNERS = {"model": Model}
