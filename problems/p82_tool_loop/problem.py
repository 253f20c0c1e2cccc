"""Problem 82: a tool loop, graded with a scripted model and with tools that fail, lie and never end."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem
from problems.p82_tool_loop import scripts
from problems.p82_tool_loop.scripts import SHAPES, SHOWN, SYNTAX, TOKENIZER

CALL_TOOLS, RUN_AGENT, LOSS_MASK = "call_tools", "run_agent", "loss_mask"
AUTHORS = ("prompt", "model", "tool")
LEFT_BY = ("no exception", "KeyboardInterrupt", "SystemExit")
NONE = -1


def as_text(token_ids: Sequence[int], most: int = 200) -> str:
    """Tokens as a report shows them."""
    text = TOKENIZER.decode(token_ids)
    return repr(text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)") if text else "nothing"


def part_with(token_ids: Sequence[int], place: int) -> str:
    """The text around a token: from the mark before it, or its own, to the next mark."""
    ids = [int(token) for token in token_ids]
    marks = [at for at, token in enumerate(ids) if token in (NONE, TOKENIZER.call, TOKENIZER.result, TOKENIZER.end)]
    start = max((at for at in marks if at <= place and ids[at] != TOKENIZER.end), default=0)
    end = min((at for at in marks if at > start and at >= place), default=len(ids))
    return as_text([token for token in ids[start : end + 1] if token != NONE])


def in_words(case: Case, difference: Difference) -> str:
    """A sentence on what is wrong in results, in a transcript, or in what was asked of the model and the tools."""
    path, place, got, expected = difference.path, difference.index, difference.got, difference.expected
    if path.endswith("left"):
        one, other = (LEFT_BY[int(each)] for each in (got, expected))
        return f"a tool raises, and `call_tools` lets through {one}, expected {other}"
    if path.endswith("count"):
        return f"`call_tools` returned {got} results; there are {expected} calls"
    if path.endswith("finished"):
        return f"`run_agent` returned {got == '1'} for whether the model has finished; expected {expected == '1'}"
    if path.endswith("runs"):
        return f"tools ran {got} times; expected {expected}"
    if path.endswith("length"):
        return f"the transcript has {got} tokens; expected {expected}"
    if not place or not _whole(got, expected):
        return ""
    if path.endswith("tokens"):
        where = f"result {place[0]}, counted from 0," if len(place) > 1 else f"the text with token {place[0]}"
        one, other = (
            part_with(leaf[place[:-1]], place[-1]) for leaf in (difference.got_leaf, difference.expected_leaf)
        )
        if one != other:
            return f"{where} is {one}, expected {other}"
        return f"{where} is {one} as expected, but in other tokens: one is number {got}, expected number {expected}"
    if path.endswith("authors"):
        one, other = (AUTHORS[int(each)] if int(each) >= 0 else "nobody" for each in (got, expected))
        return f"the author of token {place[0]} of the transcript is {one}, expected {other}"
    if path.endswith("tools"):
        names = [*json.loads(str(case.values["script"]))["tools"]]
        if place[1]:
            return f"run {place[0]} of a tool has other arguments than those of the call"
        one = f"is of `{names[int(got)]}`" if int(got) >= 0 else "is missing"
        other = f"`{names[int(expected)]}`" if int(expected) >= 0 else "none"
        return f"run {place[0]} of a tool, counted from 0, {one}; expected {other}"
    if path.endswith("turns"):
        said = (
            "tokens are given to the model",
            "other tokens than expected are given to the model",
            "tokens are allowed",
        )
        what = f"{got} {said[place[1]]}, expected {expected}" if place[1] != 1 else said[1]
        return f"for turn {place[0]}, counted from 0: {what}"
    return ""


def _whole(*numbers: str) -> bool:
    return all(number.lstrip("-").isdigit() for number in numbers)


def mask_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a token that is learned or not."""
    if not difference.index:
        return ""
    parts = json.loads(str(case.values["transcript"]))
    author, token = [(author, token) for author, token_ids in parts for token in token_ids][difference.index[0]]
    learns = "it does not learn" if difference.expected == "1" else "it learns"
    return f"token {difference.index[0]} of the transcript, {as_text([token])}, is by the {author}, and {learns}"


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the model writes and what the tools do, in words."""
    told = json.loads(str(values["script"]))
    turns = " | ".join(_short(turn) for turn in told["turns"]) + (" again and again" if told["repeats"] else "")
    tools = "; ".join(f"{name} {_does(does)}" for name, does in told["tools"].items())
    rest = {name: value for name, value in values.items() if name not in ("script", "salt")}
    return {"the model writes": turns, "tools": tools, **rest}


def _short(text: str, most: int = 300) -> str:
    for mark, name in SHOWN.items():
        text = text.replace(mark, name)
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def _does(does: Mapping[str, Any]) -> str:
    kind = does["kind"]
    if kind == "raises":
        return f"raises {does['type']}({_short(does['message'])!r})"
    if kind == "own":
        return f"returns {does['text']!r} of a class that extends `str`"
    if kind == "says":
        return f"returns {_short(does['text'])!r}"
    if kind == "value":
        return f"returns {does['value']!r}"
    if kind == "echo":
        return f"returns `{does['argument']}`"
    return {
        "sum": "returns a + b as text", "difference": "returns a - b as text",
        "special": "returns what is neither text nor JSON", "next": "returns another text each time",
        "count": "returns how many arguments it has",
    }[kind]  # fmt: skip


def answering(name: str, points: int, cases: str, **more: Any) -> Check:
    return exact(
        name, points, "answering", "agent", cases=cases, in_words=in_words, calls=(CALL_TOOLS,), partner="world", **more
    )


def running(name: str, points: int, cases: str, **more: Any) -> Check:
    return exact(
        name, points, "running", "agent", cases=cases, in_words=in_words, calls=(RUN_AGENT,), partner="world", **more
    )


def family(make: Any, draws: int = 1, covers: tuple[str, ...] = (), **sizes: tuple[int, ...]) -> Cases:
    """A family of cases with a scripted model."""
    return Cases(make, sizes, draws=draws, show=shown, covers=covers)


PROBLEM = Problem(
    title="A tool loop",
    minutes=180,
    builds_on=(51,),
    without={"coprime": "the only array is the number from which the partner draws its words"},
    entries=(
        Entry(CALL_TOOLS, ("turn", "tools", "tokenizer", "max_calls", "max_result")),
        Entry(
            RUN_AGENT, ("generate", "prompt", "tools", "tokenizer", "max_calls", "max_result", "max_tokens"),
            returns=("transcript", "finished"),
        ),
        Entry(LOSS_MASK, ("transcript",)),
    ),
    cases={
        "one call": family(scripts.plain_calls, covers=("one",), calls=(1,)),
        "calls": family(scripts.plain_calls, covers=("text",), calls=(2,)),
        "parallel": family(scripts.parallel_calls, draws=2),
        "syntax": family(partial(scripts.broken_calls, SYNTAX)),
        "shapes": family(partial(scripts.broken_calls, SHAPES)),
        "extreme": family(scripts.extreme_calls),
        "failing": family(scripts.failing_tools),
        "not text": family(scripts.not_text),
        "interrupt": family(scripts.interrupted),
        "long": family(scripts.long_results, draws=2, R=(16, 11)),
        "marks": family(scripts.marks_in_texts),
        "too many": family(scripts.too_many_calls, draws=2, most=(3, 0)),
        "conversation": family(scripts.conversation, draws=2, turns=(1, 3)),
        "no calls": family(scripts.no_calls, draws=4, kind=(0, 1, 2, 3)),
        "orders": family(scripts.orders),
        "stubborn": family(scripts.stubborn, draws=2, most=(4, 1)),
        "endless": family(scripts.endless, draws=2, most=(3, 50), T=(300, 250)),
        "turn is cut": family(partial(scripts.little_room, "turn"), draws=2, more=(0, -8)),
        "results do not fit": family(partial(scripts.little_room, "results"), draws=2, more=(0, -29)),
        "results fit": family(partial(scripts.little_room, "fit"), draws=2, more=(0, 1)),
        "long prompt": family(partial(scripts.little_room, "prompt"), draws=2, more=(0, -3)),
        "exact end": family(scripts.exact_end),
        "random": family(scripts.random_agent, draws=3, turns=(3, 6), room=(60, 90, 120)),
        "long agent": family(scripts.random_agent, turns=(80,), room=(200,)),
        "transcripts": Cases(scripts.masked, {"turns": (1, 2, 5)}, draws=3),
    },
    checks=(
        answering("one call", 1, "one call"),
        answering("several calls", 2, "calls"),
        answering("calls side by side", 2, "parallel"),
        answering("calls that are not JSON", 2, "syntax"),
        answering("JSON that is not a call", 1, "shapes"),
        answering("JSON that breaks the parser", 1, "extreme"),
        answering("tools that fail", 2, "failing"),
        answering("results that are not text", 1, "not text"),
        answering("an interrupt by the user", 1, "interrupt"),
        answering("long results", 2, "long"),
        answering("marks in texts", 2, "marks"),
        answering("more calls than may run", 1, "too many"),
        running("a conversation", 2, "conversation"),
        running("a turn without calls", 1, "no calls"),
        running("orders in a tool's text", 2, "orders"),
        running("calls over several turns", 1, "stubborn"),
        running("a model that never stops", 2, "endless"),
        running("a turn that is cut", 1, "turn is cut"),
        running("results that do not fit", 1, "results do not fit"),
        running("results that just fit", 1, "results fit"),
        running("a prompt without room", 1, "long prompt"),
        running("the last token of the budget", 1, "exact end"),
        running("random agents", 1, "random"),
        running("a long agent", 1, "long agent"),
        exact(
            "which tokens learn", 3, "masking", "mask", cases="transcripts", in_words=mask_in_words, calls=(LOSS_MASK,)
        ),
    ),
)  # fmt: skip
