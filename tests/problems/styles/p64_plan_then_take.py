"""Dictionaries and a plan: first who stays, then who comes. Attention over all rows at once, by a mask."""

import jax.numpy as jnp


class Scheduler:
    def __init__(self, num_blocks, block_size, token_budget, max_running):
        self.blocks, self.block_size, self.token_budget, self.max_running = (
            num_blocks,
            block_size,
            token_budget,
            max_running,
        )
        self.queue, self.active = [], []  # [name, length, computed]

    def need(self, length):
        return -(-length // self.block_size)

    def free_blocks(self):
        return self.blocks - sum(self.reserved(each) for each in self.active)

    def reserved(self, each):
        return self.need(each[3])

    def add(self, name, num_tokens):
        self.queue.append([name, num_tokens, 0, 0])

    def append(self, name):
        for each in self.active:
            if each[0] == name:
                each[1] += 1

    def finish(self, name):
        self.active = [each for each in self.active if each[0] != name]
        self.queue = [each for each in self.queue if each[0] != name]

    def schedule(self):
        for place in range(len(self.active)):
            if place >= len(self.active):
                break
            each = self.active[place]
            while self.need(each[1]) - self.reserved(each) > self.free_blocks():
                out = self.active.pop()
                out[2] = out[3] = 0
                self.queue.insert(0, out)
                if out is each:
                    break
            else:
                each[3] = each[1]
        budget, work = self.token_budget, []
        for each in self.active:
            budget -= self.plan(each, budget, work)
        while budget and self.queue and len(self.active) < self.max_running:
            if self.need(self.queue[0][1]) > self.free_blocks():
                break
            first = self.queue.pop(0)
            first[3] = first[1]
            self.active.append(first)
            budget -= self.plan(first, budget, work)
        return tuple(work)

    @staticmethod
    def plan(each, budget, work):
        n = min(budget, each[1] - each[2])
        if n:
            work.append([each[0], each[2], n])
            each[2] += n
        return n


def batched_attention(q, k, v, keys, values, rows, positions):
    R, L, H, K = keys.shape
    flat = jnp.where(rows < 0, R * L, rows * L + positions)
    keys, values = (cache.reshape(R * L, H, K).at[flat].set(x, mode="drop") for cache, x in ((keys, k), (values, v)))
    place = jnp.arange(R * L)
    seen = (place // L == rows[:, None]) & (place % L <= positions[:, None])  # (N, R L)
    anybody = seen.any(0)
    scores = jnp.einsum("nhk,phk->hnp", q, jnp.where(anybody[:, None, None], keys, 0)) / K**0.5
    weights = jnp.where(seen, jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True, where=seen, initial=-1e9)), 0)
    weights = weights / jnp.maximum(weights.sum(-1, keepdims=True), 1e-30)
    out = jnp.einsum("hnp,phk->nhk", weights, jnp.where(anybody[:, None, None], values, 0))
    return jnp.where((rows >= 0)[:, None, None], out, 0), keys.reshape(R, L, H, K), values.reshape(R, L, H, K)


def serve(run, requests, scheduler, end_id):
    prompts = {name: prompt for _, name, prompt, _ in requests}
    limits = {name: limit for _, name, _, limit in requests}
    answers = {name: [] for name in prompts}
    ended, step = set(), 0
    while len(ended) < len(prompts):
        for arrival, name, prompt, _ in requests:
            if arrival == step:
                scheduler.add(name, len(prompt))
        work = scheduler.schedule()
        if work:
            tokens = run([(n, s, (prompts[n] + answers[n])[s : s + c]) for n, s, c in work])
            for name, start, count in work:
                if start + count != len(prompts[name]) + len(answers[name]):
                    continue
                stop = tokens[name] == end_id
                if not stop:
                    answers[name].append(tokens[name])
                if stop or len(answers[name]) >= limits[name]:
                    scheduler.finish(name)
                    ended.add(name)
                else:
                    scheduler.append(name)
        step += 1
    return answers
