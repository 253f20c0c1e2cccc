"""An object that holds the budget and the log, and reads tokens with an index, as in a parser."""

import json


class Agent:
    def __init__(self, tools, tokenizer, calls, longest):
        self.tools, self.tokenizer, self.calls, self.longest = tools, tokenizer, calls, longest
        self.log = []

    def tokens(self):
        return [token for _, part in self.log for token in part]

    def bodies(self, turn):
        special = (self.tokenizer.call, self.tokenizer.result, self.tokenizer.end)
        starts = [place for place, token in enumerate(turn) if token in special] + [len(turn)]
        for start, stop in zip(starts, starts[1:]):
            if turn[start] == self.tokenizer.call:
                yield self.tokenizer.decode(turn[start + 1 : stop])

    def reply(self, body):
        self.calls -= 1
        if self.calls < 0:
            return "error: no calls left"
        try:
            call = json.loads(body)
        except Exception:
            return "error: not a call"
        if not isinstance(call, dict):
            return "error: not a call"
        name, arguments = call.get("name"), call.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return "error: not a call"
        try:
            tool = self.tools[name]
        except KeyError:
            return "error: no such tool"
        try:
            value = tool(**arguments)
            if not isinstance(value, str):
                value = json.dumps(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            value = f"error: {error.__class__.__name__}: {error}"
        return value

    def wrapped(self, text):
        ids = self.tokenizer.encode_ordinary(text)
        note = self.tokenizer.encode_ordinary("[cut]")
        while len(ids) > self.longest:
            ids = ids[: self.longest - len(note)] + note
        return [self.tokenizer.result, *ids, self.tokenizer.end]

    def results(self, turn):
        return [self.wrapped(self.reply(body)) for body in self.bodies(turn)]


def call_tools(turn, tools, tokenizer, max_calls, max_result):
    return Agent(tools, tokenizer, max_calls, max_result).results(turn)


def run_agent(generate, prompt, tools, tokenizer, max_calls, max_result, max_tokens):
    agent = Agent(tools, tokenizer, max_calls, max_result)
    agent.log.append(("prompt", list(prompt)))
    finished = False
    while not finished and len(agent.tokens()) < max_tokens:
        turn = list(generate(agent.tokens(), max_tokens - len(agent.tokens())))
        agent.log.append(("model", turn))
        if turn[-1] != tokenizer.end:
            break
        results = agent.results(turn)
        together = [token for result in results for token in result]
        if len(agent.tokens()) + len(together) > max_tokens:
            break
        agent.log += [("tool", together)] if results else []
        finished = not results
    return agent.log, finished


def loss_mask(transcript):
    mask = []
    for author, token_ids in transcript:
        mask.extend([{"prompt": False, "model": True, "tool": False}[author]] * len(token_ids))
    return mask
