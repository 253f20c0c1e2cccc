"""Marks found with NumPy, one turn after another by recursion, and a mask by np.repeat."""

import json

import numpy as np


def text_of(call, tools):
    try:
        wanted = json.loads(call)
    except (ValueError, RecursionError):
        wanted = None
    fits = isinstance(wanted, dict) and {"name", "arguments"} <= wanted.keys()
    if not (fits and isinstance(wanted["name"], str) and isinstance(wanted["arguments"], dict)):
        return "error: not a call"
    if wanted["name"] not in tools:
        return "error: no such tool"
    error = None
    try:
        value = tools[wanted["name"]](**wanted["arguments"])
        return value if isinstance(value, str) else json.JSONEncoder().encode(value)
    except SystemExit as left:
        error = left
    except Exception as raised:
        error = raised
    return f"error: {type(error).__name__}: {error!s}"


def call_tools(turn, tools, tokenizer, max_calls, max_result):
    ids = np.array(turn)
    marks = np.flatnonzero(np.isin(ids, [tokenizer.call, tokenizer.result, tokenizer.end]))
    bounds = np.append(marks, len(ids))
    results = []
    for start, stop in zip(bounds[:-1], bounds[1:]):
        if ids[start] != tokenizer.call:
            continue
        if len(results) >= max_calls:
            text = "error: no calls left"
        else:
            text = text_of(tokenizer.decode(ids[start + 1 : stop].tolist()), tools)
        body = np.array(tokenizer.encode_ordinary(text), int)
        if len(body) > max_result:
            note = tokenizer.encode_ordinary("[cut]")
            body = np.concatenate([body[: max_result - len(note)], note])
        results.append([tokenizer.result, *body.tolist(), tokenizer.end])
    return results


def run_agent(generate, prompt, tools, tokenizer, max_calls, max_result, max_tokens):
    def rest(parts, left):
        known = [token for _, token_ids in parts for token in token_ids]
        if len(known) >= max_tokens:
            return parts, False
        turn = generate(known, max_tokens - len(known))
        parts = [*parts, ("model", turn)]
        if turn[-1] != tokenizer.end:
            return parts, False
        results = call_tools(turn, tools, tokenizer, left, max_result)
        if len(results) == 0:
            return parts, True
        if sum(len(result) for result in results) > max_tokens - len(known) - len(turn):
            return parts, False
        return rest([*parts, *(("tool", result) for result in results)], max(0, left - len(results)))

    return rest([("prompt", [*prompt])], max_calls)


def loss_mask(transcript):
    wrote = [author == "model" for author, _ in transcript]
    return np.repeat(wrote, [len(token_ids) for _, token_ids in transcript]).tolist()
