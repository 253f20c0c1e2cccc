"""Problem 82: a tool loop. The page is in pages/p82_tool_loop.md."""

from collections.abc import Callable
from typing import Any

Tool = Callable[..., Any]
# The author of each part, "prompt", "model" or "tool", and its token ids.
Transcript = list[tuple[str, list[int]]]


def call_tools(
    turn: list[int],
    tools: dict[str, Tool],
    tokenizer: Any,
    max_calls: int,
    max_result: int,
) -> list[list[int]]:
    """The results of all calls in a turn of the model, in order: the token ids of each,
    from `<result>` to `<end>`.

    tokenizer: `encode_ordinary(text)`, `encode(text)`, `decode(token_ids)`, and the
    token ids of the marks, `call`, `result` and `end`. max_calls: how many calls may
    run. max_result: the most tokens between the marks of a result.
    """
    raise NotImplementedError


def run_agent(
    generate: Callable[[list[int], int], list[int]],
    prompt: list[int],
    tools: dict[str, Tool],
    tokenizer: Any,
    max_calls: int,
    max_result: int,
    max_tokens: int,
) -> tuple[Transcript, bool]:
    """Lets a model write and call tools. Returns what was written, by whom, and
    whether the model has finished.

    `generate(token_ids, most)` returns the model's next turn: at most `most` tokens, of
    which the last one is `<end>` if the model ended its turn. max_calls: how many calls
    may run in all. max_tokens: the most tokens of the transcript with its prompt.
    """
    raise NotImplementedError


def loss_mask(transcript: Transcript) -> list[bool]:
    """For each token of a transcript, whether the model learns it."""
    raise NotImplementedError
