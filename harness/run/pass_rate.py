"""How often a model solves the held-out problems of a task: pass@1 and pass@k, with intervals."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool

from harness.errors import UsageError
from harness.run.rollouts import Continuation, Rewarded, continued, rewarded_by
from harness.run.run_session import Session
from harness.run.tasks import Prompt, Task, get_problems, text_task

Z = 1.96  # deviations of a normal distribution within which 95% lie


@dataclass(frozen=True)
class PassRates:
    """The verified answers to P held-out problems, N of each."""

    solved_PN: Bool[np.ndarray, "P N"]
    length: float  # mean tokens of an answer
    overlong: float  # share of answers that were cut off
    calls: float | None = None  # mean number of calls of an answer, if the task has tools

    def at(self, k: int) -> tuple[float, float, float]:
        """pass@k: the chance that at least one of k answers is right; and the ends of its 95% interval.

        The interval is that of Wilson (1927), with the problems as the sample. The estimate for one problem lies
        between 0 and 1, so it varies at most as much as a coin: the interval is never too narrow, and not empty if all
        or none are solved.
        """
        P, N = self.solved_PN.shape
        rate = float(np.mean([pass_at_k(int(solved), N, k) for solved in self.solved_PN.sum(axis=1)]))
        return rate, *wilson(rate, P)


def pass_at_k(solved: int, samples: int, k: int) -> float:
    """The chance that k of the samples, drawn without replacement, have a solved one: `1 - C(n - c, k) / C(n, k)`.

    It is an unbiased estimate for k new samples (Chen et al. 2021, "Evaluating large language models trained on code").
    """
    return 1 - math.comb(samples - solved, k) / math.comb(samples, k)


def wilson(rate: float, number: int) -> tuple[float, float]:
    """The ends of the 95% interval of a rate that was seen in so many trials."""
    center = rate + Z**2 / (2 * number)
    margin = Z * math.sqrt(rate * (1 - rate) / number + (Z / (2 * number)) ** 2)
    scale = 1 + Z**2 / number
    return max((center - margin) / scale, 0.0), min((center + margin) / scale, 1.0)


def pass_rates(
    session: Session, model: Any, name: str, problems: int, samples: int, temperature: float = 1.0
) -> PassRates:
    """The answers of a model to at most `problems` held-out problems of the task `name`, `samples` of each.

    Raises UsageError if the task has no held-out problems, or if they leave no room for an answer in the context.
    """
    config = replace(session.config, prompt_tokens=session.config.context - 1)
    drawn = text_task(get_problems(name, session.verify), config, session.tokenizer, session.template).held_out
    prompts = drawn(problems) if drawn else []
    if not prompts:
        raise UsageError(f"No problem of the task {name} is held out, because it has so few. Add more problems.")
    # All prompts have the room that the longest leaves.
    session = replace(session, config=replace(config, prompt_tokens=max(len(prompt.ids) for prompt in prompts)))
    task = text_task(get_problems(name, session.verify), session.config, session.tokenizer, session.template)
    rows = [prompt for prompt in prompts for _ in range(samples)]
    with jax.set_mesh(session.mesh):
        answers = [*_answers(session, model, task, rows, temperature)]
    return PassRates(
        np.array([rewarded.solved for rewarded, _ in answers]).reshape(len(prompts), samples),
        float(np.mean([each.length for _, each in answers])),
        float(np.mean([not rewarded.ended for rewarded, _ in answers])),
        None if task.tools is None else float(np.mean([each.calls for _, each in answers])),
    )


def _answers(
    session: Session, model: Any, task: Task, prompts: list[Prompt], temperature: float
) -> Iterator[tuple[Rewarded, Continuation]]:
    """An answer to each prompt, and what the task says of it.

    Rows of a paged cache are filled again, so all prompts are one batch.
    """
    size = len(prompts) if session.config.cache_blocks else session.config.batch_size
    for first in range(0, len(prompts), size):
        batch = prompts[first : first + size]
        for prompt, each in zip(batch, continued(session, model, task, batch, first, temperature), strict=True):
            yield rewarded_by(session, task, prompt, each), each
