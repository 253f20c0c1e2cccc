"""Tasks of reinforcement learning: prompts, and a program that verifies what a model writes after them."""

import functools
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tiktoken

from commandline import files
from harness.config import TASK, Config
from harness.data import arithmetic
from harness.data.arithmetic import is_held_out
from harness.data.dialogues import Template
from harness.data.package_tokenizer import begin_of
from harness.data.token_files import Tokens
from harness.errors import PieceError, UsageError
from harness.run.parse_answers import marked, number_in, numbers_and_value
from harness.run.rewards import GSM8K, Reward, attributed, finite, functions_of, get_reward
from harness.run.tool_loop import Tools

FORMS = "arithmetic, tools, countdown, gsm8k:FILE.jsonl, or FILE.py"
MOST_DRAWS = 1000  # of problems in a row that cannot be used


class Problem(NamedTuple):
    """A question, and what the verifier compares an answer with."""

    question: str
    answer: Any = None
    name: str = ""  # decides whether it is held out; empty: the question does


class Prompt(NamedTuple):
    """A problem as a model gets it."""

    ids: tuple[int, ...]
    text: str
    answer: Any = None


@dataclass(frozen=True)
class Task:
    """What rollouts need: prompts, and the program that rewards what follows them."""

    draw: Callable[[np.random.Generator, int], list[Prompt]]  # so many, for training
    reward: Callable[[Prompt, str, bool], float]  # (prompt, continuation, whether it ended); 1 or more: solved
    has_form: Callable[[str], bool] | None = None  # whether an answer can be read from a continuation
    held_out: Callable[[int], list[Prompt]] | None = None  # so many different ones at most, which are never drawn
    tools: Tools | None = None  # which an answer may call


@dataclass(frozen=True)
class Problems:
    """A task before its questions are encoded."""

    draw: Callable[[random.Random], Problem]
    reward: Callable[[str, str, bool, Any], float]  # (question, continuation, whether it ended, answer)
    has_form: Callable[[str], bool] | None = None
    tools: Tools | None = None


Verify = Callable[[str, str], bool]  # (what a text gives as its answer, the right one) -> whether it is that number


def get_problems(name: str, verify: Verify | None = None) -> Problems:
    """The problems of the task called `name`. `verify` compares numbers, in place of the harness's own program.

    Raises UsageError if there is none, PieceError if its file is broken.
    """
    is_number = _is_number if verify is None else functools.partial(_is_verified, verify)
    if name == "arithmetic":
        return Problems(_sum, is_number, _has_number)
    if name == "tools":
        return Problems(_sum, is_number, _has_number, {"add": _add})
    if name == "countdown":
        return Problems(_countdown, _is_countdown, lambda text: numbers_and_value(text) is not None)
    if name.startswith(GSM8K):
        questions = _gsm8k(Path(name.removeprefix(GSM8K)))
        return Problems(lambda rng: rng.choice(questions), is_number, _has_number)
    if name.endswith(".py"):
        return _of_file(Path(name))
    raise UsageError(f"--task {name} is not valid; write {FORMS}.")


def open_task(
    reward: str,
    config: Config,
    tokenizer: tiktoken.Encoding,
    template: Template | None,
    stories: Callable[[], Tokens],
    verify: Verify | None = None,
) -> Task:
    """The task of a reward: that which it names, or continuing stories. Raises UsageError if it does not fit the
    settings."""
    if reward.startswith(TASK):
        task = text_task(get_problems(reward.removeprefix(TASK), verify), config, tokenizer, template)
    else:
        task = story_task(stories(), tokenizer, config.prompt_tokens, get_reward(reward))
    if config.format_weight and task.has_form is None:
        raise UsageError(
            f"format_weight={config.format_weight} needs a task that says what form an answer has. Define "
            "has_form(continuation) in its file, or leave format_weight out."
        )
    return task


def text_task(
    problems: Problems, config: Config, tokenizer: tiktoken.Encoding, template: Template | None = None
) -> Task:
    """The task of these problems, each after the system prompt, by the chat template if the model has learned from
    dialogues.

    Those with more than `prompt_tokens` tokens are left out.
    """

    def encoded(question: str) -> list[int]:
        if template is None:
            return [*begin_of(tokenizer), *tokenizer.encode_ordinary(config.system_prompt + question)]
        system = [{"role": "system", "content": config.system_prompt}] if config.system_prompt else []
        return template.prompt([*system, {"role": "user", "content": question.strip()}])

    def usable(rng: random.Random, held_out: bool, known: set[str]) -> Prompt | None:
        longest = 0
        for _ in range(MOST_DRAWS):
            problem = problems.draw(rng)
            name = problem.name or problem.question
            if is_held_out(name) != held_out or name in known:
                continue
            ids, text = encoded(problem.question), config.system_prompt + problem.question
            if 0 < len(ids) <= config.prompt_tokens:
                known.add(name)
                return Prompt(tuple(ids), text, problem.answer)
            longest = max(longest, len(ids))
        if longest:
            raise UsageError(
                f"The prompts of the task have more than prompt_tokens={config.prompt_tokens} tokens. Make room with "
                f"--set prompt_tokens={longest}, and a context that leaves as much for the answer."
            )
        return None

    def draw(rng: np.random.Generator, number: int) -> list[Prompt]:
        own = random.Random(int(rng.integers(1 << 62)))  # noqa: S311 - not for cryptography
        found = [prompt for _ in range(number) if (prompt := usable(own, False, set()))]
        if len(found) < number:
            raise UsageError("All problems of the task are held out, because it has so few. Add more problems.")
        return found

    def held_out(number: int) -> list[Prompt]:
        own, known = random.Random(config.seed), set[str]()  # noqa: S311 - not for cryptography
        found: list[Prompt] = []
        while len(found) < number and (prompt := usable(own, True, known)):
            found.append(prompt)
        return found

    def reward(prompt: Prompt, continuation: str, ended: bool) -> float:
        return problems.reward(prompt.text, continuation, ended, prompt.answer)

    return Task(draw, reward, problems.has_form, held_out, problems.tools)


def story_task(tokens: Tokens, tokenizer: tiktoken.Encoding, prompt_tokens: int, reward: Reward) -> Task:
    """The task of continuing stories after their first `prompt_tokens` tokens, of all stories that are longer."""
    starts = np.concatenate([[0], tokens.ends[:-1]])
    long_enough = np.flatnonzero(tokens.ends - starts > prompt_tokens)

    def draw(rng: np.random.Generator, number: int) -> list[Prompt]:
        beginnings = starts[rng.choice(long_enough, number)]
        ids = [tokens[int(start) : int(start) + prompt_tokens].tolist() for start in beginnings]
        return [Prompt(tuple(row), tokenizer.decode(row)) for row in ids]

    return Task(draw, lambda prompt, continuation, ended: reward(prompt.text, continuation, ended))


def _sum(rng: random.Random) -> Problem:
    a, b = arithmetic.numbers(rng)
    return Problem(arithmetic.question(a, b), a + b, arithmetic.name(a, b))


def _add(a: float, b: float) -> float:
    """The calculator of the task `tools`."""
    return a + b


def _is_number(question: str, continuation: str, ended: bool, answer: Any) -> float:
    return float(ended and number_in(continuation) == answer)


def _is_verified(verify: Verify, question: str, continuation: str, ended: bool, answer: Any) -> float:
    return float(ended and verify(marked(continuation).strip(), str(answer)))


def _has_number(continuation: str) -> bool:
    return number_in(continuation) is not None


def _countdown(rng: random.Random) -> Problem:
    """Numbers, and one that can be computed from them (the game of the television show; Gandhi et al. 2024)."""
    while True:
        numbers = [rng.randint(1, 25) for _ in range(rng.choice((3, 4)))]
        values = [Fraction(number) for number in numbers]
        while len(values) > 1:
            a, b = values.pop(), values.pop()
            values.append(rng.choice((a + b, a - b, b - a, a * b)))
            rng.shuffle(values)
        if values[0].denominator == 1 and 1 <= values[0] <= 100:
            target = int(values[0])
            listed = ", ".join(map(str, numbers))
            question = f"Use each of the numbers {listed} once, and + - * / ( ), to make {target}."
            return Problem(question, (numbers, target), f"{sorted(numbers)} {target}")


def _is_countdown(question: str, continuation: str, ended: bool, answer: tuple[list[int], int]) -> float:
    found = numbers_and_value(continuation)
    numbers, target = answer
    return float(ended and found is not None and found == (Counter(numbers), Fraction(target)))


def _gsm8k(file: Path) -> list[Problem]:
    """The problems of a file in the format of GSM8K (Cobbe et al. 2021): lines of JSON, with the answer after
    `####`."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The task's file {file} {files.why_no_text(error)}.") from error
    problems = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            question, answer = str(record["question"]), number_in(str(record["answer"]))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f'{file}, line {number} is not a record with "question" and "answer" ({type(error).__name__}: {error}).'
            ) from error
        if answer is None:
            raise UsageError(f"{file}, line {number}: its answer has no number after ####.")
        problems.append(Problem(f"{question}\n", answer, question))
    if not problems:
        raise UsageError(f"{file} has no problems.")
    return problems


def _of_file(file: Path) -> Problems:
    """The functions `problem(rng)`, `reward(prompt, continuation, answer)` and, if there is one,
    `has_form(continuation)`."""
    functions = functions_of(file)
    for name in ("problem", "reward"):
        if not callable(functions.get(name)):
            raise UsageError(f"{file} has no function `{name}`; a task needs problem(rng) and reward(...).")

    def draw(rng: random.Random) -> Problem:
        drawn = attributed(file, lambda: functions["problem"](rng))
        try:
            question, answer = drawn
        except (TypeError, ValueError):
            question = answer = None
        if not isinstance(question, str):
            raise PieceError(f"`problem` of {file} returned {drawn!r}; it must return a prompt and its answer.")
        return Problem(question, answer)

    def reward(question: str, continuation: str, ended: bool, answer: Any) -> float:
        value = attributed(file, lambda: functions["reward"](question, continuation, answer))
        return finite(file, "reward", value)

    has_form = functions.get("has_form")
    formed = (lambda text: bool(attributed(file, lambda: has_form(text)))) if callable(has_form) else None
    return Problems(draw, reward, formed)
