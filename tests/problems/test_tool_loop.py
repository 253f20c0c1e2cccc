"""The loop keeps its promises with random agents, it fits the harness's bytes, and its play shows what a wrong one
does."""

import json
import sys

import numpy as np
import pytest

from grader.course import cases, catalog
from harness.data.arithmetic import question
from harness.data.tokenizer import get_tokenizer
from problems.p82_tool_loop import probes
from problems.p82_tool_loop.scripts import TOKENIZER
from tests.conftest import ROOT
from tests.problems.test_plays import shown

MARKS = {TOKENIZER.call, TOKENIZER.result, TOKENIZER.end}


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


@pytest.mark.fast
@pytest.mark.parametrize("group", ["conversation", "orders", "endless", "turn is cut", "random"])
def test_what_an_agent_reads_is_what_was_written_and_each_call_has_one_result(group: str):
    from p82_tool_loop import loss_mask, run_agent

    for case in cases.draw(catalog.find("82"), group, 3):
        world, values = probes.World(case), case.values
        subject = type("Asks", (), {"ask": staticmethod(world.answer)})
        read: list[list[int]] = []
        turns: list[list[int]] = []

        def generate(token_ids, most, world=world, read=read, turns=turns):
            read.append(token_ids)
            turns.append(world.answer({"read": token_ids, "most": most}))
            return list(turns[-1])

        prompt = TOKENIZER.encode_ordinary(values["prompt"])
        limits = (values["max_calls"], values["max_result"], values["max_tokens"])
        transcript, finished = run_agent(generate, prompt, probes._tools(subject, case), TOKENIZER, *limits)
        tokens = [token for _, token_ids in transcript for token in token_ids]
        mask = loss_mask(transcript)
        assert len(tokens) == len(mask) <= values["max_tokens"]
        assert [each for each, learns in zip(tokens, mask, strict=True) if learns] == [
            t for turn in turns for t in turn
        ]
        assert all(tokens[: len(each)] == each for each in read)
        assert world.runs <= values["max_calls"]
        for author, token_ids in transcript:
            if author == "tool":
                assert (token_ids[0], token_ids[-1]) == (TOKENIZER.result, TOKENIZER.end)
                assert not MARKS & set(token_ids[1:-1])
        results = sum(author == "tool" for author, _ in transcript)
        answered = turns if finished or results == 0 else turns[:-1]
        assert results == sum(turn.count(TOKENIZER.call) for turn in answered) * (results > 0)
        assert finished == (turns[-1][-1] == TOKENIZER.end and TOKENIZER.call not in turns[-1])


@pytest.mark.fast
def test_a_model_of_bytes_has_room_for_the_marks():
    """The bytes 254 and 255 are in no text, so they can be marks, and end-of-text ends a turn as it ends a story."""
    from p82_tool_loop import loss_mask, run_agent

    encoding = get_tokenizer("bytes")

    class Bytes:
        call, result, end = 254, 255, encoding.eot_token
        encode_ordinary, decode = encoding.encode_ordinary, encoding.decode

    written = json.dumps({"name": "add", "arguments": {"a": 27, "b": 82}})
    assert not {254, 255} & set(encoding.encode_ordinary("".join(map(chr, range(0xD800)))))
    turns = [[Bytes.call, *encoding.encode_ordinary(written), Bytes.end], [*b" #### 109", Bytes.end]]
    replies = iter(turns)
    prompt = encoding.encode_ordinary(question(27, 82))
    transcript, finished = run_agent(
        lambda token_ids, most: next(replies), prompt, {"add": lambda a, b: a + b}, Bytes, 1, 16, 128
    )
    tokens = np.array([token for _, token_ids in transcript for token in token_ids])
    assert finished
    assert tokens[np.array(loss_mask(transcript))].tolist() == turns[0] + turns[1]
    assert transcript[2] == ("tool", [Bytes.result, *b"109", Bytes.end])


@pytest.mark.thorough
def test_the_play_shows_who_learns_what(fork_server):
    read, tricks, budget, learned = shown("82", fork_server)
    assert "nobody is paid" in read.caption
    assert {row[2] for row in tricks.rows} == {"held"}
    assert "the last turn was cut" in budget.caption
    assert "to ask, to wait and to answer" in learned.caption
    right, asks, invented = (np.array(line.y) for line in learned.lines)
    assert right[-5:].mean() > 0.8 > 0.5 > right[0]
    assert asks[-5:].mean() > 0.8 > 0.5 > asks[0]
    assert invented[-5:].mean() < 0.1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("find", "replace", "exhibit", "says"),
    [
        ("token_ids = tokenizer.encode_ordinary(text)", "token_ids = tokenizer.encode(text)", 1, "1 of 12 end"),
        ('author == "model" for', 'author != "prompt" for', 0, "that the model did not write"),
        ('author == "model" for', 'author != "prompt" for', 3, "with a result of its own"),
        (
            '[author == "model" for author, token_ids in transcript for _ in token_ids]',
            "[part == len(transcript) - 1 for part, (_, token_ids) in enumerate(transcript) for _ in token_ids]",
            3, "because its calls do not learn",
        ),
        ("if place < max_calls else", "if True else", 2, "and 4 calls were allowed"),
        ("max_tokens - len(context))", "max_tokens)", 2, "and its budget is 400"),
        (
            "results = call_tools(turn,",
            "turn = tokenizer.encode(tokenizer.decode(context))\n        results = call_tools(turn,", 0, "has paid eve",
        ),
        ("(Exception, SystemExit)", "(ValueError, TypeError)", 1, "2 of 12 end"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_seen_in_the_play(fork_server, find: str, replace: str, exhibit: int, says: str):
    assert says in shown("82", fork_server, find, replace)[exhibit].caption
