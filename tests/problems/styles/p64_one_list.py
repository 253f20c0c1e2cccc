"""All sequences in one list by arrival, blocks counted from lengths, and attention one token at a time."""

import jax
import jax.numpy as jnp


class Scheduler:
    def __init__(self, num_blocks, block_size, token_budget, max_running):
        self.num_blocks, self.S, self.budget, self.most = num_blocks, block_size, token_budget, max_running
        self.order, self.length, self.done, self.held, self.runs = [], {}, {}, {}, set()

    def add(self, name, num_tokens):
        self.order.append(name)
        self.length[name], self.done[name] = num_tokens, 0

    def append(self, name):
        self.length[name] += 1

    def finish(self, name):
        self.order.remove(name)
        self.runs.discard(name)
        self.held.pop(name, None)

    def free_blocks(self):
        return self.num_blocks - sum(self.held.values())

    def wanted(self, name):
        return (self.length[name] + self.S - 1) // self.S

    def schedule(self):
        left, work = self.budget, {}
        for name in self.order:
            if name not in self.runs:
                fits = self.wanted(name) <= self.free_blocks()
                if not (left and fits and len(self.runs) < self.most):
                    break
                self.runs.add(name)
            while name in self.runs and self.wanted(name) - self.held.get(name, 0) > self.free_blocks():
                newest = [each for each in self.order if each in self.runs][-1]
                self.runs.remove(newest)
                del self.held[newest]
                self.done[newest] = 0
            if name not in self.runs:
                break
            self.held[name] = self.wanted(name)
            if count := min(left, self.length[name] - self.done[name]):
                work[name] = (name, self.done[name], count)
                self.done[name] += count
                left -= count
        return [work[name] for name in sorted(work, reverse=True)]


def batched_attention(q, k, v, keys, values, rows, positions):
    def write(n, caches):
        def put(cache, x):
            there = jnp.arange(cache.shape[0])[:, None] == rows[n]
            here = (jnp.arange(cache.shape[1]) == positions[n])[None]
            return jnp.where((there & here)[..., None, None], x[n], cache)

        return put(caches[0], k), put(caches[1], v)

    keys, values = jax.lax.fori_loop(0, len(rows), write, (keys, values))

    def attend(args):
        q, row, position = args
        seen = (jnp.arange(keys.shape[1]) <= position)[:, None]
        own_k, own_v = keys[row], jnp.where(seen[..., None], values[row], 0)
        scores = jnp.where(seen, jnp.sum(own_k * q, -1) * q.shape[-1] ** -0.5, -jnp.inf)
        out = jnp.sum(jax.nn.softmax(scores, axis=0)[..., None] * own_v, axis=0)
        return jnp.where(row < 0, jnp.zeros_like(out), out)

    return jax.lax.map(attend, (q, rows, positions)), keys, values


def serve(run, requests, scheduler, end_id):
    all_requests = sorted(requests, key=lambda request: request[0])
    texts, prompts, most, live, answers, now = {}, {}, {}, set(), {}, 0
    while all_requests or live:
        while all_requests and all_requests[0][0] <= now:
            _, name, prompt, limit = all_requests.pop(0)
            scheduler.add(name, len(prompt))
            texts[name], prompts[name], most[name] = [*prompt], len(prompt), limit
            live.add(name)
        now += 1
        work = [(name, start, texts[name][start:][:count]) for name, start, count in scheduler.schedule()]
        if not work:
            continue
        tokens = run(work)
        for name, start, chunk in work:
            if start + len(chunk) == len(texts[name]):
                if tokens[name] != end_id:
                    texts[name] += [tokens[name]]
                if tokens[name] == end_id or len(texts[name]) == prompts[name] + most[name]:
                    scheduler.finish(name)
                    live.remove(name)
                    answers[name] = texts[name][prompts[name] :]
                else:
                    scheduler.append(name)
    return answers
