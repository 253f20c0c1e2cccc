"""Sampling 128 tokens: the key-value cache and rerunning the padded window, alternately.

    python benchmarks/sampling.py [ROUNDS]

The tutorial's shape with a context of 256: 4 blocks of width 128, a vocabulary of 50,257. The bar: 10 times the tokens/s.
"""

import dataclasses
import statistics
import sys
import time

from flax import nnx

from harness.model.gpt import GPT
from harness.model.sampling import CachedDecoder, Decoder, Sampling, WindowDecoder, generate
from harness.presets import preset

NEW = 128
PROMPT = list(range(100, 108))


def seconds(decoder: Decoder, sampling: Sampling) -> tuple[float, list[int]]:
    """The time for the prompt and all new tokens, and the tokens."""
    started = time.perf_counter()
    tokens = list(generate(decoder, PROMPT, sampling, end_of_text=-1))
    return time.perf_counter() - started, tokens


def main(rounds: int) -> None:
    """Runs both decoders `rounds` times, alternately, and prints their speed. Their tokens must be equal."""
    config = dataclasses.replace(preset("tutorial"), vocab_size=50_257, context=256, dropout=0.0)
    model = GPT(config, nnx.Rngs(0))
    sampling = Sampling(temperature=0.0, max_tokens=NEW)
    decoders = {"cached": CachedDecoder(model, sampling), "window": WindowDecoder(model, sampling, config.context)}
    times: dict[str, list[float]] = {name: [] for name in decoders}
    for number in range(rounds + 1):
        tokens = {}
        for name, decoder in decoders.items():
            elapsed, tokens[name] = seconds(decoder, sampling)
            if number:  # the first round compiles
                times[name].append(elapsed)
        assert tokens["cached"] == tokens["window"]
    speed = {name: NEW / statistics.median(elapsed) for name, elapsed in times.items()}
    for name, value in speed.items():
        print(f"{name:<8}{value:>10,.1f} tokens/s")
    print(f"ratio: {speed['cached'] / speed['window']:.1f} (bar: 10)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
