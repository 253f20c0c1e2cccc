"""Free blocks counted from the lengths each time; one loop for running and waiting sequences; a spare row of the
cache."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass
class Sequence:
    name: str
    length: int
    computed: int = 0


class Scheduler:
    def __init__(self, num_blocks, block_size, token_budget, max_running):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.token_budget, self.max_running = token_budget, max_running
        self.queue: list[Sequence] = []  # those that run, in order of admission, then those that wait
        self.admitted = 0
        self.held: dict[str, int] = {}

    def add(self, name, num_tokens):
        self.queue.append(Sequence(name, num_tokens))

    def free_blocks(self):
        return self.num_blocks - sum(self.held.values())

    def schedule(self):
        work, budget, place = [], self.token_budget, 0
        while place < len(self.queue):
            one = self.queue[place]
            needed = -(-one.length // self.block_size)
            if place < self.admitted:
                while place < self.admitted and self.free_blocks() < needed - self.held[one.name]:
                    self.admitted -= 1
                    newest = self.queue[self.admitted]
                    newest.computed = self.held.pop(newest.name) * 0
                if place >= self.admitted:
                    continue
            elif budget and self.admitted < self.max_running and needed <= self.free_blocks():
                self.admitted += 1
            else:
                break
            self.held[one.name] = needed
            count = min(budget, one.length - one.computed)
            if count:
                work.append((one.name, one.computed, count))
            one.computed += count
            budget -= count
            place += 1
        return work

    def _find(self, name):
        return next(place for place, one in enumerate(self.queue) if one.name == name)

    def append(self, name):
        self.queue[self._find(name)].length += 1

    def finish(self, name):
        place = self._find(name)
        self.admitted -= place < self.admitted
        self.held.pop(name, None)
        del self.queue[place]


def batched_attention(q, k, v, keys, values, rows, positions):
    R, L = keys.shape[:2]
    where = jnp.where(rows < 0, R, rows)

    def written(cache, new):
        return jnp.pad(cache, [(0, 1)] + [(0, 0)] * 3).at[where, positions].set(new)

    keys, values = written(keys, k), written(values, v)

    def one(query, row, position):
        seen = (jnp.arange(L) <= position)[:, None, None]
        own = jnp.where(seen, keys[row], 0)
        scores = jnp.where(seen[..., 0], (own * query).sum(-1) / query.shape[-1] ** 0.5, -jnp.inf)
        mixed = jnp.einsum("lh,lhk->hk", jax.nn.softmax(scores, axis=0), jnp.where(seen, values[row], 0))
        return jnp.where(row < R, mixed, 0)

    return jax.vmap(one)(q, where, positions), keys[:R], values[:R]


def serve(run, requests, scheduler, end_id):
    texts, answers, most, step, open_ = {}, {}, {}, 0, len(requests)
    arrivals = list(requests)[::-1]
    while open_:
        while arrivals and arrivals[-1][0] <= step:
            _, name, prompt, most[name] = arrivals.pop()
            texts[name], answers[name] = list(prompt), []
            scheduler.add(name, len(prompt))
        step += 1
        work = scheduler.schedule()
        if not work:
            continue
        new = run([(name, start, texts[name][start : start + count]) for name, start, count in work])
        for name, start, count in work:
            if start + count < len(texts[name]):
                continue
            if new[name] != end_id:
                texts[name].append(new[name])
                answers[name].append(new[name])
                if len(answers[name]) < most[name]:
                    scheduler.append(name)
                    continue
            scheduler.finish(name)
            open_ -= 1
    return answers
