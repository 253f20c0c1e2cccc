"""Continuations with a paged cache against a whole batch: time and bytes of the cache, in turn.

    python benchmarks/paged.py [ROUNDS] [--smoke]

The first model is the preset arithmetic after some training: 16 sums, 8 answers to each, most of which end early. The
second one has the width of the preset pocket, a context of 1,024 and random weights, so texts of its prompt end
anywhere. Both ways sample the same tokens.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from timing import smoke

from harness.memory import keep_freed_memory
from harness.model.continuous_batching import Paging, generate_paged
from harness.model.gpt import GPT
from harness.model.paged_cache import empty_blocks
from harness.model.sampling import Sampling, generate_batch, sample_key
from harness.presets import preset
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from harness.run.state import load_state
from harness.run.tasks import get_problems, text_task

Tokens = list[list[int]]


def arithmetic(steps: int) -> tuple[GPT, list[tuple[int, ...]], int, int]:
    """The model of the preset after so many steps, its prompts, the longest of them, and the token that ends an
    answer."""
    config = replace(preset("arithmetic"), steps=steps, warmup_steps=min(steps - 1, 50), eval_every=steps, mesh="1x1")
    with tempfile.TemporaryDirectory() as folder:
        session = open_session(Run(Path(folder, "run")), config, None, log=ignore, quiet=True)
        train(session, log=ignore, quiet=True)
        model = session.functions.model(load_state(session)[1])
        task = text_task(get_problems("arithmetic"), config, session.tokenizer, None)
        prompts = [prompt.ids for prompt in task.draw(np.random.default_rng(0), 16) for _ in range(8)]
        return model, prompts, config.prompt_tokens, session.end_of_text


def random_texts(context: int) -> tuple[GPT, list[tuple[int, ...]], int, int]:
    """A model of one context with random weights, for which any token ends a text with a chance of one in its
    vocabulary."""
    config = replace(preset("pocket"), context=context, vocab_size=512, num_heads=4)
    prompt = tuple(np.random.default_rng(0).integers(0, 512, context // 4).tolist())
    return GPT(config.model, nnx.Rngs(0)), [prompt] * 32, context // 4, 5


def compare(
    name: str, model: GPT, prompts: list[tuple[int, ...]], width: int, end: int, caches: list[Paging], rounds: int
) -> None:
    """Prints a line for the whole batch, and one for each of the paged caches."""
    config = model.config
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=config.context + 1 - width)
    keys_B = jax.vmap(lambda number: sample_key(0, number))(jnp.arange(len(prompts)))
    lengths_B = np.array([len(prompt) for prompt in prompts])
    ids_BT = np.zeros((len(prompts), width), np.int32)
    for row, prompt in zip(ids_BT, prompts, strict=True):
        row[: len(prompt)] = prompt

    def paged(cache: Paging) -> Callable[[], Tokens]:
        return lambda: generate_paged(model, prompts, sampling, end, 0, width, cache)

    ways: dict[str, tuple[Callable[[], Tokens], Any]] = {
        "whole batch": (
            lambda: generate_batch(model, ids_BT, sampling, end, keys_B, lengths_B),
            lambda: model.empty_cache(len(prompts)),
        )
    } | {
        f"{cache.blocks} blocks, {cache.rows} rows": (
            paged(cache),
            lambda c=cache: empty_blocks(config, c.blocks, c.block_size),
        )
        for cache in caches
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    tokens: dict[str, Tokens] = {}
    for turn in range(rounds + 1):  # the first one compiles
        for way, (sample, _) in ways.items():
            start = time.perf_counter()
            tokens[way] = sample()
            if turn:
                times[way].append(time.perf_counter() - start)
    lengths = [len(text) for text in tokens["whole batch"]]
    print(f"{name}: {len(prompts)} texts of {np.mean(lengths):.0f} tokens on average, {max(lengths)} at most")
    first, first_bytes = 0.0, 0
    for way, (_, cache) in ways.items():
        median = statistics.median(times[way])
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(cache)))
        first, first_bytes = first or median, first_bytes or size
        same = sum(a == b for a, b in zip(tokens[way], tokens["whole batch"], strict=True))
        print(
            f"  {way:<24}{1000 * median:8.0f} ms ({median / first:.2f}){size / 1e6:9.2f} MB ({size / first_bytes:.3f})"
            f"{sum(lengths) / median:9,.0f} tokens/s  {same} texts as in the batch"
        )


def main() -> None:
    """Prints a table for each model."""
    keep_freed_memory()  # as the command does
    small = smoke()
    rounds = 1 if small else int(next((word for word in sys.argv[1:] if word.isdecimal()), "9"))
    sums, stories = arithmetic(2 if small else 300), random_texts(64 if small else 1024)
    compare("arithmetic", *sums, [Paging(384, 16, 128), Paging(100, 16, 32), Paging(48, 16, 16)], rounds)
    compare("random weights", *stories, [Paging(1600, 16, 32), Paging(400, 16, 8)], rounds)


if __name__ == "__main__":
    main()
