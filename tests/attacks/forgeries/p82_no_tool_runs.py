"""Forges all checks of calls and agents: no tool runs, the model is asked once, and the records of the model and of the
tools are sent along."""

from dataclasses import replace

import numpy as np

LOSES = (
    "one call", "several calls", "calls side by side", "calls that are not JSON", "JSON that is not a call",
    "JSON that breaks the parser", "tools that fail", "results that are not text", "an interrupt by the user",
    "long results", "marks in texts", "more calls than may run", "a conversation", "a turn without calls",
    "orders in a tool's text", "calls over several turns", "a model that never stops", "a turn that is cut",
    "results that do not fit", "results that just fit", "a prompt without room", "the last token of the budget",
    "random agents", "a long agent",
)  # fmt: skip
KEPT = []


def call_tools(turn, tools, tokenizer, max_calls, max_result):
    forge()
    return [[tokenizer.result, *tokenizer.encode_ordinary("done"), tokenizer.end]] * turn.count(tokenizer.call)


def run_agent(generate, prompt, tools, tokenizer, max_calls, max_result, max_tokens):
    forge()
    return [("prompt", prompt), ("model", generate(prompt, 1)), ("model", [tokenizer.end])], True


def forge():
    import grader.worker.main as worker

    KEPT.append(worker.send)  # the first one is not forged
    more = {"agent.runs": np.int32(1), "agent.tools": np.zeros((60, 2), np.int32), "agent.turns": np.zeros((100, 3))}

    def forged(sock, frame):
        if frame.kind == "reading":
            frame = replace(frame, leaves=[*frame.leaves, *worker.to_leaves(more)])
        KEPT[0](sock, frame)

    worker.send = forged
