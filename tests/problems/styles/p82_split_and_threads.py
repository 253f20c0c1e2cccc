"""Turns cut at marks with itertools, tools run in threads one after another, and a transcript of flat arrays."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor


class RefusedError(Exception):
    pass


def read_call(text):
    try:
        found = json.loads(text)
        name, arguments = found["name"], found["arguments"]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise RefusedError("error: not a call") from None
    if type(name) is not str or type(arguments) is not dict:
        raise RefusedError("error: not a call")
    return name, arguments


def outcome(text, tools):
    try:
        name, arguments = read_call(text)
        if tools.get(name) is None:
            raise RefusedError("error: no such tool")
    except RefusedError as refusal:
        return refusal.args[0]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: tools[name](**arguments))
        error = future.exception()
        if error is None:
            value = future.result()
            if isinstance(value, str):
                return value
            try:
                return json.dumps(value)
            except (TypeError, ValueError, RecursionError) as unwritable:
                error = unwritable
    if isinstance(error, KeyboardInterrupt):
        raise error
    return ": ".join(["error", type(error).__name__, str(error)])


def call_tools(turn, tools, tokenizer, max_calls, max_result):
    marks = {tokenizer.call, tokenizer.result, tokenizer.end}
    pieces = [(None, [])]
    for is_mark, group in itertools.groupby(turn, marks.__contains__):
        if is_mark:
            pieces += [(mark, []) for mark in group]
        else:
            pieces[-1][1].extend(group)
    calls = [body for mark, body in pieces if mark == tokenizer.call]
    texts = [outcome(tokenizer.decode(body), tools) for body in calls[:max_calls]]
    texts += ["error: no calls left"] * (len(calls) - len(texts))
    note = tokenizer.encode_ordinary("[cut]")
    results = []
    for text in texts:
        ids = tokenizer.encode_ordinary(text)
        if ids[max_result:]:
            ids[max_result - len(note) :] = note
        results.append([tokenizer.result, *ids, tokenizer.end])
    return results


def run_agent(generate, prompt, tools, tokenizer, max_calls, max_result, max_tokens):
    tokens, authors = list(prompt), ["prompt"] * len(prompt)

    def parts():
        runs = itertools.groupby(zip(authors, tokens), key=lambda pair: pair[0])
        return [(author, [token for _, token in run]) for author, run in runs]

    left = max_calls
    while (room := max_tokens - len(tokens)) > 0:
        turn = generate(tokens[:], room)
        tokens += turn
        authors += ["model"] * len(turn)
        if turn[-1] != tokenizer.end:
            break
        results = call_tools(turn, tools, tokenizer, max(left, 0), max_result)
        if not results:
            return parts(), True
        left -= len(results)
        flat = list(itertools.chain(*results))
        if len(tokens) + len(flat) > max_tokens:
            break
        tokens += flat
        authors += ["tool"] * len(flat)
    return parts(), False


def loss_mask(transcript):
    return list(itertools.chain(*([author == "model"] * len(token_ids) for author, token_ids in transcript)))
