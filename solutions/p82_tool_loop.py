"""Problem 82, reference: a tool loop."""

import json
from collections.abc import Callable, Sequence
from typing import Any

Tool = Callable[..., Any]
Transcript = list[tuple[str, list[int]]]


def calls_in(turn: Sequence[int], tokenizer: Any) -> list[str]:
    """The text of each call: what stands between its mark and the next mark."""
    calls: list[list[int]] = []
    inside = False
    for token in turn:
        if token in (tokenizer.call, tokenizer.result, tokenizer.end):
            inside = token == tokenizer.call
            if inside:
                calls.append([])
        elif inside:
            calls[-1].append(token)
    return [tokenizer.decode(token_ids) for token_ids in calls]


def answer(text: str, tools: dict[str, Tool]) -> str:
    """What the model reads after a call, whatever it has written and whatever the tool does."""
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):  # too deep, or a number with too many digits
        call = None
    match call:
        case {"name": str(name), "arguments": dict(arguments)}:
            pass
        case _:
            return "error: not a call"
    if name not in tools:
        return "error: no such tool"
    try:
        result = tools[name](**arguments)
        return result if isinstance(result, str) else json.dumps(result)
    except (Exception, SystemExit) as error:  # not KeyboardInterrupt: Ctrl-C is for the loop
        return f"error: {type(error).__name__}: {error}"


def as_result(text: str, tokenizer: Any, max_result: int) -> list[int]:
    """A result: its text is text only, whatever it says."""
    token_ids = tokenizer.encode_ordinary(text)
    if len(token_ids) > max_result:
        note = tokenizer.encode_ordinary("[cut]")
        token_ids = token_ids[: max_result - len(note)] + note
    return [tokenizer.result, *token_ids, tokenizer.end]


def call_tools(
    turn: Sequence[int], tools: dict[str, Tool], tokenizer: Any, max_calls: int, max_result: int
) -> list[list[int]]:
    """A result for each call of the turn, in the order of the calls."""
    results = []
    for place, call in enumerate(calls_in(turn, tokenizer)):
        text = answer(call, tools) if place < max_calls else "error: no calls left"
        results.append(as_result(text, tokenizer, max_result))
    return results


def run_agent(
    generate: Callable[[list[int], int], list[int]],
    prompt: Sequence[int],
    tools: dict[str, Tool],
    tokenizer: Any,
    max_calls: int,
    max_result: int,
    max_tokens: int,
) -> tuple[Transcript, bool]:
    """Turns and results, until a turn has no call or the budget is spent. Tokens are appended and never changed."""
    transcript: Transcript = [("prompt", list(prompt))]
    context = list(prompt)
    while len(context) < max_tokens:
        turn = generate(list(context), max_tokens - len(context))
        transcript.append(("model", turn))
        context += turn
        if turn[-1] != tokenizer.end:
            return transcript, False
        results = call_tools(turn, tools, tokenizer, max_calls, max_result)
        if not results:
            return transcript, True
        if len(context) + sum(map(len, results)) > max_tokens:
            return transcript, False
        for result in results:
            transcript.append(("tool", result))
            context += result
        max_calls -= len(results)
    return transcript, False


def loss_mask(transcript: Transcript) -> list[bool]:
    """True for all that the model wrote: its marks and its mistakes, too."""
    return [author == "model" for author, token_ids in transcript for _ in token_ids]
