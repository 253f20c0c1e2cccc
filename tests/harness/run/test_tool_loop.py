"""The loop of tools for many prompts is that of problem 82, and only what the model wrote is sampled."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from grader.course import cases, catalog
from harness.data.tokenizer import get_tokenizer
from harness.data.tools import Marks, called
from harness.errors import UsageError
from harness.run import tool_loop
from harness.run.tool_loop import Agent, ToolUse, no_results, run_agents
from problems.p82_tool_loop import probes
from problems.p82_tool_loop.scripts import TOKENIZER
from tests.conftest import ROOT

pytestmark = pytest.mark.fast
HOSTILE = ("exits", "raises", "marks", "set", "long", "number", "half")
ROOM = 150  # tokens
MARKS = Marks(get_tokenizer("bytes"))


def hostile(name: str) -> Any:
    """A tool that does what its name says."""

    def call(**arguments: Any) -> Any:
        if name == "exits":
            sys.exit(3)
        if name == "raises":
            raise ValueError("no")
        return {"marks": "<end><call>", "set": {1}, "long": "7" * 100, "number": 1.5, "half": "\ud800"}[name]

    return call


@pytest.mark.parametrize("group", ["conversation", "orders", "endless", "turn is cut", "random"])
def test_many_agents_are_those_of_the_page(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])
    from p82_tool_loop import run_agent

    for case in cases.draw(catalog.find("82"), group, 4):
        limits = case.values["max_calls"], case.values["max_result"]
        prompt = TOKENIZER.encode_ordinary(case.values["prompt"])
        first, second = probes.World(case), probes.World(case)
        tools = [probes._tools(type("Asks", (), {"ask": staticmethod(each.answer)}), case) for each in (first, second)]

        def ask(token_ids: list[int], most: int, world: Any = first) -> list[int]:
            return list(world.answer({"read": list(token_ids), "most": most}))

        def together(agents: list[Agent], turn: int, ask: Any = ask, world: Any = second) -> Iterator[list[int]]:
            return (ask(agent.ids, agent.left, world) for agent in agents)

        expected = run_agent(ask, prompt, tools[0], TOKENIZER, *limits, len(prompt) + ROOM)
        use = ToolUse(tools[1], TOKENIZER, *limits)
        (agent,) = run_agents(together, [prompt], ROOM, TOKENIZER.end, use.answer)
        assert (agent.transcript, agent.finished) == expected


def test_agents_that_are_done_are_not_asked_again() -> None:
    turns = {0: ["<end>"], 1: [called(1, 2).partition("<result>")[0], " #### 3<end>"], 2: ["no end"]}
    asked: list[list[int]] = []

    def generate(agents: list[Agent], turn: int) -> Iterator[list[int]]:
        asked.append([agent.number for agent in agents])
        return (MARKS.encode(turns[agent.number][turn])[: agent.left] for agent in agents)

    use = ToolUse({"add": lambda a, b: a + b}, MARKS, 2, 32)
    agents = run_agents(generate, [[7], [7, 7], [7]], 80, MARKS.end, use.answer)
    assert asked == [[0, 1, 2], [1]]
    assert [(agent.finished, agent.calls) for agent in agents] == [(True, 0), (True, 1), (False, 0)]
    assert MARKS.decode(agents[1].ids[2:]) == called(1, 2) + " #### 3<end>"
    mask = tool_loop.loss_mask(agents[1].transcript)
    assert MARKS.decode([t for t, is_tool in zip(agents[1].ids[2:], ~np.array(mask[2:]), strict=True) if is_tool]) == (
        "<result>3<end>"
    )


def test_without_tools_a_loop_is_one_turn() -> None:
    turn = MARKS.encode(called(1, 2).partition("<result>")[0])
    (agent,) = run_agents(lambda agents, number: [turn], [[7]], 80, MARKS.end, no_results)
    assert (agent.transcript, agent.finished) == ([("prompt", [7]), ("model", turn)], True)


@pytest.mark.parametrize("name", [*HOSTILE, "none", "broken", "deep"])
def test_results_are_those_of_the_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])
    from p82_tool_loop import call_tools

    tools = {each: hostile(each) for each in HOSTILE}
    text = {"broken": '["add"]', "deep": "[" * 100_000}.get(name, f'{{"name": "{name}", "arguments": {{}}, "id": 1}}')
    turn = MARKS.encode(f"<call>{text}<result>x<call>{text}<call>{text}<end>")
    expected = call_tools(turn, tools, MARKS, 2, 20)
    assert tool_loop.call_tools(turn, tools, MARKS, 2, 20) == expected
    assert len(expected) == 3
    assert all(not {MARKS.call, MARKS.result, MARKS.end} & set(result[1:-1]) for result in expected)


def test_marks_need_bytes() -> None:
    with pytest.raises(UsageError, match="only tokenizer=bytes has room for"):
        Marks(get_tokenizer("pocket-2k"))
