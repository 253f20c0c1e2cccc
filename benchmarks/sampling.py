"""Sampling 128 new tokens: cached keys and values beside the padded window run anew for each token, turn about.

    python benchmarks/sampling.py [ROUNDS]

The tutorial's shape with room for 256 positions: 4 blocks of width 128, a vocabulary of 50,257. Bar: 10 times the tokens/s.
"""

import dataclasses
import statistics
import sys
import time

from flax import nnx

from harness.config import preset
from harness.model.gpt import GPT
from harness.model.sampling import CachedDecoder, Decoder, Sampling, WindowDecoder, generate

NEW = 128
PROMPT = list(range(100, 108))


def seconds(decoder: Decoder, sampling: Sampling) -> tuple[float, list[int]]:
    """For all new tokens, the prompt included."""
    began = time.perf_counter()
    tokens = list(generate(decoder, PROMPT, sampling, end_of_text=-1))
    return time.perf_counter() - began, tokens


def main(rounds: int) -> None:
    """Both ways, turn about; the tokens must be the same."""
    config = dataclasses.replace(preset("tutorial"), vocab_size=50_257, context=256, dropout=0.0)
    model = GPT(config, nnx.Rngs(0))
    sampling = Sampling(temperature=0.0, max_tokens=NEW)
    decoders = {"cached": CachedDecoder(model, sampling), "window": WindowDecoder(model, sampling, config.context)}
    taken: dict[str, list[float]] = {name: [] for name in decoders}
    for number in range(rounds + 1):
        said = {}
        for name, decoder in decoders.items():
            took, said[name] = seconds(decoder, sampling)
            if number:  # the first compiles
                taken[name].append(took)
        assert said["cached"] == said["window"]
    speed = {name: NEW / statistics.median(times) for name, times in taken.items()}
    for name, value in speed.items():
        print(f"{name:<8}{value:>10,.1f} tokens/s")
    print(f"ratio: {speed['cached'] / speed['window']:.1f} (bar: 10)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
