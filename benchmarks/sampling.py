"""Sampling 128 tokens: the harness's key-value cache, and a program that reruns the padded window, alternately.

    python benchmarks/sampling.py [ROUNDS] [--smoke]

The tutorial's shape with a context of 256: 4 blocks of width 128, a vocabulary of 50,257. Each runs in its own process.
The window is padded to the context and rerun as a plain program would, without what the `harness` command sets up. The
bar: 20 times its tokens/s.
"""

import dataclasses
import json
import statistics
import sys
import time

from flax import nnx
from timing import alternately, smoke

from harness.memory import keep_freed_memory
from harness.model import sampling as sampling_module
from harness.model.gpt import GPT
from harness.model.sampling import CachedDecoder, Sampling, WindowDecoder, generate
from harness.presets import preset

NEW = 128
PROMPT = list(range(100, 108))


def serve(name: str, new: int) -> None:
    """Samples once for each line on stdin. Prints the time for the prompt and all new tokens, and the tokens, as
    JSON."""
    if name == "cached":
        keep_freed_memory()  # as the command does
    config = dataclasses.replace(preset("tutorial"), vocab_size=50_257, context=256, dropout=0.0)
    sampling_module.SHORTEST_WINDOW = config.context  # the harness pads short texts to less
    model, sampling = GPT(config, nnx.Rngs(0)), Sampling(temperature=0.0, max_tokens=new)
    decoder = CachedDecoder(model, sampling) if name == "cached" else WindowDecoder(model, sampling, config.context)
    for _ in sys.stdin:
        started = time.perf_counter()
        tokens = list(generate(decoder, PROMPT, sampling, end_of_text=-1))
        print(json.dumps({"seconds": time.perf_counter() - started, "tokens": tokens}), flush=True)


def main(rounds: int, new: int) -> None:
    """Runs both decoders `rounds` times, alternately, and prints their speed. Their tokens must be equal."""
    times: dict[str, list[float]] = {"cached": [], "window": []}
    tokens = []
    for number, name, sample in alternately(
        {name: [__file__, "--serve", name, str(new)] for name in times}, rounds + 1
    ):
        tokens.append(sample["tokens"])
        if number:  # the first round compiles
            times[name].append(sample["seconds"])
    assert all(each == tokens[0] for each in tokens)
    speed = {name: new / statistics.median(elapsed) for name, elapsed in times.items()}
    for name, value in speed.items():
        print(f"{name:<8}{value:>10,.1f} tokens/s")
    print(f"ratio: {speed['cached'] / speed['window']:.1f} (bar: 20)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
    elif smoke():
        main(1, 2)
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, NEW)
