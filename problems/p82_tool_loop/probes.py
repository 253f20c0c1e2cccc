"""The probes of problem 82: what calls give, what an agent writes and who wrote it, and what learns. Run in workers."""

import builtins
import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p82_tool_loop.problem import AUTHORS, LEFT_BY, NONE
from problems.p82_tool_loop.scripts import TOKENIZER, sampled_ids, with_secrets
from problems.p82_tool_loop.tokens import Tokenizer

MOST = 300  # turns of a model
TURNS, RUNS = 100, 60  # whose questions are compared
SPARE = 40  # tokens and results that are compared although they should not be there

Tool = Callable[..., Any]


class ToolError(Exception):
    """What a tool of its own kind raises."""


class OwnText(str):
    """A text of a tool's own class, such as the members of an enumeration."""


def _cycle() -> list[Any]:
    knot: list[Any] = []
    knot.append(knot)
    return knot


SPECIAL: dict[str, Callable[[], Any]] = {
    "bytes": lambda: b"42",
    "set": lambda: {42},
    "complex": lambda: 1 + 2j,
    "cycle": _cycle,
    "nan": lambda: float("nan"),
}


class World:
    """The model and the tools of a case. Its words come from a number that nobody else knows. It records what it was
    asked."""

    def __init__(self, case: Case):
        told = json.loads(str(case.values["script"]))
        self.salt = int(np.asarray(case.values["salt"])[0])
        self.texts, self.tools, self.repeats = told["turns"], told["tools"], told["repeats"]
        self.turns = np.full((TURNS, 3), NONE, np.int32)
        self.ran = np.full((RUNS, 2), NONE, np.int32)
        self.asked = self.runs = 0
        self.drawn: dict[str, int] = {}

    def answer(self, question: dict[str, Any]) -> Any:
        """The next turn of the model, its first turn, or what a tool does."""
        if "read" in question:
            return self._write(question["read"], int(question["most"]))
        if "tool" in question:
            return self._use(question["tool"], question["arguments"])
        return sampled_ids(self.salt, 0, self.texts[0])

    def arrays(self) -> dict[str, Any]:
        return {
            "agent.tools": self.ran,
            "agent.runs": np.int32(self.runs),
            "agent.turns": self.turns,
        }

    def _write(self, token_ids: list[int], most: int) -> list[int]:
        if self.asked >= MOST:
            raise BadOutputError(f"`run_agent` has asked for {MOST} turns, and it does not end")
        if self.asked < TURNS:
            self.turns[self.asked] = len(token_ids), _digest(token_ids), min(most, 10**6)
        number = min(self.asked, len(self.texts) - 1) if self.repeats else self.asked
        text = self.texts[number] if number < len(self.texts) else self.texts[-1]
        self.asked += 1
        return sampled_ids(self.salt, self.asked - 1, text)[: max(most, 0)]

    def _use(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.runs < RUNS:
            self.ran[self.runs] = [*self.tools].index(name), _digest(arguments)
        self.runs += 1
        does = self.tools[name]
        kind = does["kind"]
        taken = {"sum": ["a", "b"], "difference": ["a", "b"], "echo": [does.get("argument")]}.get(kind, [])
        if kind == "count":
            return {"value": f"{len(arguments)} arguments"}
        if sorted(arguments) != taken:
            return {"raises": "TypeError", "message": f"{name} takes the arguments {taken}, not {sorted(arguments)}"}
        if kind == "raises":
            return {"raises": does["type"], "message": with_secrets(self.salt, does["message"])}
        if kind == "special":
            return {"special": name}
        if kind in ("sum", "difference"):
            sign = 1 if kind == "sum" else -1
            return {"value": str(arguments["a"] + sign * arguments["b"])}
        if kind == "own":
            return {"own": does["text"]}
        if kind == "echo":
            return {"value": arguments[does["argument"]]}
        if kind == "value":
            return {"value": does["value"]}
        number = self.drawn[name] = self.drawn.get(name, -1) + 1
        text = does["texts"][number % len(does["texts"])] if kind == "next" else does["text"]
        return {"value": with_secrets(self.salt, text)}


def _digest(value: Any) -> int:
    """A number that tells values apart."""
    return zlib.crc32(json.dumps(value, sort_keys=True).encode()) >> 1


def _tools(subject: Subject, case: Case) -> dict[str, Tool]:
    """The tools of a case, which the partner carries out."""

    def tool(name: str, kind: str) -> Tool:
        def run(**arguments: Any) -> Any:
            done = subject.ask({"tool": name, "arguments": arguments})
            if "raises" in done:
                raise getattr(builtins, done["raises"], ToolError)(done["message"])
            if "own" in done:
                return OwnText(done["own"])
            return SPECIAL[done["special"]]() if "special" in done else done["value"]

        def of_two(a: Any, b: Any) -> Any:  # has a signature: Python itself refuses other arguments
            return run(a=a, b=b)

        made = of_two if kind in ("sum", "difference") else run
        made.__name__ = made.__qualname__ = name
        return made

    told = json.loads(str(case.values["script"]))["tools"]
    return {name: tool(name, does["kind"]) for name, does in told.items()}


def _ids(value: Any, what: str) -> list[int]:
    """A list of token ids. Raises BadOutputError if it is not one."""
    if not isinstance(value, list | tuple | np.ndarray):
        raise BadOutputError(f"{what} is {described(value)}; it must be a list of token ids")
    for each in value:
        if isinstance(each, bool) or not isinstance(each, int | np.integer) or not 0 <= each < TOKENIZER.vocab_size:
            raise BadOutputError(f"{what} holds {described(each)}; it must hold token ids")
    return [int(each) for each in value]


@eager
def answering(subject: Subject, case: Case) -> Reading:
    """The results of the calls in a turn, and the exception that got through."""
    values = case.values
    turn, most = subject.ask({}), int(values["max_result"])
    wide, calls = most + 2 + SPARE, turn.count(TOKENIZER.call)
    tokens = np.full((calls + 2, wide), NONE, np.int32)
    count, left = NONE, 0
    try:
        results = subject.call(
            "call_tools", list(turn), _tools(subject, case), Tokenizer(), values["max_calls"], most,
            returns=(list | tuple, "a list of lists of token ids"),
        )  # fmt: skip
        count = len(results)
        for place, result in enumerate(results[: calls + 2]):
            some = _ids(result, f"result {place} of `call_tools`")[:wide]
            tokens[place, : len(some)] = some
    except (KeyboardInterrupt, SystemExit) as error:
        left = LEFT_BY.index(type(error).__name__)
    return Reading({"agent.left": np.int32(left), "agent.count": np.int32(count), "agent.tokens": tokens})


@eager
def running(subject: Subject, case: Case) -> Reading:
    """The transcript of an agent, its authors, and whether it has finished."""
    values = case.values
    prompt, most = TOKENIZER.encode_ordinary(str(values["prompt"])), int(values["max_tokens"])

    def generate(token_ids: Any, allowed: Any) -> list[int]:
        read = _ids(token_ids, "what `generate` gets")
        if isinstance(allowed, bool) or not isinstance(allowed, int | np.integer) or allowed < 1:
            raise BadOutputError(f"`generate` is called with most={allowed!r}; it must be a whole number of 1 or more")
        turn: list[int] = subject.ask({"read": read, "most": int(allowed)})
        return turn

    transcript, finished = subject.call(
        "run_agent", generate, list(prompt), _tools(subject, case), Tokenizer(), values["max_calls"],
        values["max_result"], most,
    )  # fmt: skip
    if not isinstance(transcript, list | tuple):
        raise BadOutputError(f"the transcript is {described(transcript)}; it must be a list of (author, token_ids)")
    if not isinstance(finished, bool | np.bool_):
        raise BadOutputError(f"`run_agent` returned {described(finished)} as `finished`; it must be True or False")
    tokens, authors = (np.full(max(most, len(prompt)) + SPARE, NONE, np.int32) for _ in range(2))
    length = 0
    for part in transcript:
        if not isinstance(part, tuple | list) or len(part) != 2 or part[0] not in AUTHORS:
            raise BadOutputError(
                f"the transcript holds {described(part)}; it must hold (author, token_ids), where the author is "
                '"prompt", "model" or "tool"'
            )
        some = _ids(part[1], f'a part of the transcript by "{part[0]}"')
        room = max(0, len(tokens) - length)
        tokens[length : length + len(some)] = some[:room]
        authors[length : length + len(some)] = AUTHORS.index(part[0])
        length += len(some)
    return Reading({
        "agent.tokens": tokens, "agent.authors": authors, "agent.length": np.int32(length),
        "agent.finished": np.int32(finished),
    })  # fmt: skip


@eager
def masking(subject: Subject, case: Case) -> Reading:
    """Which tokens of a transcript learn."""
    transcript = [(author, token_ids) for author, token_ids in json.loads(str(case.values["transcript"]))]
    mask = np.asarray(subject.call("loss_mask", transcript))
    count = sum(len(token_ids) for _, token_ids in transcript)
    if mask.shape != (count,) or mask.dtype.kind not in "bi":
        raise BadOutputError(
            f"`loss_mask` returned {mask.dtype} of shape {mask.shape}; it must return {count} booleans, one for each "
            "token"
        )
    return Reading({"mask": mask.astype(bool).astype(np.int32)})


PROBES = {"answering": answering, "running": running, "masking": masking}
PARTNERS = {"world": World}
