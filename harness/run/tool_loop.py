"""The loop of problem 82 for many prompts at a time: turns of the model, the tools that they call, and the results.

A task without tools is a loop of one turn.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Tokenizer(Protocol):
    """A tokenizer whose marks are tokens that stand for no text, such as `harness.data.tools.Marks`."""

    call: int
    result: int
    end: int

    def encode_ordinary(self, text: str) -> list[int]: ...
    def decode(self, token_ids: list[int]) -> str: ...


Tool = Callable[..., Any]
Tools = Mapping[str, Tool]
Transcript = list[tuple[str, list[int]]]  # parts with their authors: "prompt", "model" or "tool"
# (turn, tools, tokenizer, calls that are left, most tokens of a result) -> a result for each call of the turn
CallTools = Callable[[list[int], Tools, Tokenizer, int, int], list[list[int]]]
Answer = Callable[[list[int], int], list[list[int]]]  # (turn, number of calls before it) -> the same
LossMask = Callable[[Transcript], list[bool]]
CUT = "[cut]"  # the end of a result that is cut


@dataclass
class Agent:
    """What follows one prompt of P tokens, in at most `room` tokens."""

    transcript: Transcript
    room: int
    number: int  # tells it from the others
    ids: list[int] = field(init=False)  # all tokens of the transcript
    calls: int = 0
    is_done: bool = False
    finished: bool = False  # whether its last turn is whole and has no call

    def __post_init__(self) -> None:
        self.ids = [token for _, part in self.transcript for token in part]
        self.most = len(self.ids) + self.room

    @property
    def left(self) -> int:
        """How many tokens may still follow."""
        return self.most - len(self.ids)

    @property
    def last(self) -> list[int]:
        """The last turn of the model."""
        return next(part for author, part in reversed(self.transcript) if author == "model")

    def append(self, author: str, part: list[int]) -> None:
        """Adds a part to the transcript."""
        self.transcript.append((author, part))
        self.ids += part

    def take(self, turn: list[int], end: int, answer: Answer) -> None:
        """Adds a turn, and the results of its calls if it is whole and they fit."""
        self.append("model", turn)
        self.is_done = True
        if turn[-1] != end:
            return
        results = answer(turn, self.calls)
        self.finished = not results
        self.calls += len(results)
        if results and sum(map(len, results)) <= self.left:
            for result in results:
                self.append("tool", result)
            self.is_done = not self.left


def no_results(turn: list[int], before: int) -> list[list[int]]:
    """The results of a turn whose author has no tools."""
    return []


def run_agents(
    generate: Callable[[list[Agent], int], Iterable[list[int]]],
    prompts: Iterable[Sequence[int]],
    room: int,
    end: int,
    answer: Answer,
) -> list[Agent]:
    """An agent for each prompt, run until all are done.

    `generate` gets those that are not, and the number of the turn, and returns a turn of each: up to `end`, or of as
    many tokens as it has left.
    """
    agents = [Agent([("prompt", [*prompt])], room, number) for number, prompt in enumerate(prompts)]
    number, waiting = 0, agents
    while waiting:
        for agent, turn in zip(waiting, generate(waiting, number), strict=True):
            agent.take(turn, end, answer)
        number, waiting = number + 1, [agent for agent in waiting if not agent.is_done]
    return agents


def call_tools(turn: list[int], tools: Tools, tokenizer: Tokenizer, max_calls: int, max_result: int) -> list[list[int]]:
    """The tokens of a result for each call of a turn, in their order. Calls after the first `max_calls` are refused."""
    texts = [
        _answer(call, tools) if place < max_calls else "error: no calls left"
        for place, call in enumerate(_calls_in(turn, tokenizer))
    ]
    return [_as_result(text, tokenizer, max_result) for text in texts]


def loss_mask(transcript: Transcript) -> list[bool]:
    """Whether the model wrote a token, for all tokens of a transcript."""
    return [author == "model" for author, part in transcript for _ in part]


def _calls_in(turn: list[int], tokenizer: Tokenizer) -> list[str]:
    """What stands between each mark of a call and the next mark."""
    marks = {tokenizer.call, tokenizer.result, tokenizer.end}
    places = [place for place, token in enumerate(turn) if token in marks]
    spans = zip(places, [*places[1:], len(turn)], strict=True)
    return [tokenizer.decode(turn[start + 1 : stop]) for start, stop in spans if turn[start] == tokenizer.call]


def _answer(call: str, tools: Tools) -> str:
    """What a model reads after a call. A failure is a text as well: the model can correct itself."""
    try:
        said = json.loads(call)
        name, arguments = said["name"], said["arguments"]
        is_call = isinstance(name, str) and isinstance(arguments, dict)
    except (ValueError, TypeError, KeyError, RecursionError):
        is_call = False
    if not is_call:
        return "error: not a call"
    if name not in tools:
        return "error: no such tool"
    try:
        result = tools[name](**arguments)
        return result if isinstance(result, str) else json.dumps(result)
    except (Exception, SystemExit) as error:  # whatever a tool does, the loop continues; but not after Ctrl-C
        return f"error: {type(error).__name__}: {error}"


def _as_result(text: str, tokenizer: Tokenizer, max_result: int) -> list[int]:
    ids = tokenizer.encode_ordinary(text)
    if len(ids) > max_result:
        cut = tokenizer.encode_ordinary(CUT)
        ids = [*ids[: max_result - len(cut)], *cut]
    return [tokenizer.result, *ids, tokenizer.end]


@dataclass(frozen=True)
class ToolUse:
    """The tools of a task with the limits of a run, and the programs of the loop: the harness's, or pieces."""

    tools: Tools
    tokenizer: Tokenizer
    max_calls: int
    max_result: int
    call_tools: CallTools = call_tools
    loss_mask: LossMask = loss_mask

    def answer(self, turn: list[int], before: int) -> list[list[int]]:
        """The results of the calls of a turn, with so many calls before it."""
        return self.call_tools(turn, self.tools, self.tokenizer, max(self.max_calls - before, 0), self.max_result)
