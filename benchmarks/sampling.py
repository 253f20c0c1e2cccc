"""Sampling 128 tokens: the harness's key-value cache, a program that reruns the padded window, and transformers,
alternately.

    python benchmarks/sampling.py [ROUNDS] [--smoke] [--write]

The tutorial's shape with a context of 256: 4 blocks of width 128, a vocabulary of 50,257. Each runs in its own process.
The window is padded to the context and rerun as a plain program would, without what the `harness` command sets up.
Their tokens must be equal. Where torch and transformers are installed, `generate` of a GPT-2 of the same sizes takes
its turn: its weights are others, so its tokens are not compared.
"""

import dataclasses
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from flax import nnx
from timing import Run, alternately, answers

from harness.memory import keep_freed_memory
from harness.model import sampling as sampling_module
from harness.model.gpt import GPT
from harness.model.sampling import CachedDecoder, Sampling, WindowDecoder, generate
from harness.presets import preset

PROMPT = list(range(100, 108))


def serve(name: str, new: int) -> None:
    """Answers with the time for the prompt and all new tokens, and the tokens."""
    if name == "cached":
        keep_freed_memory()  # as the command does
    config = dataclasses.replace(preset("tutorial"), vocab_size=50_257, context=256, dropout=0.0)
    sampling_module.SHORTEST_WINDOW = config.context  # the harness pads short texts to less
    model, sampling = GPT(config, nnx.Rngs(0)), Sampling(temperature=0.0, max_tokens=new)
    decoder = CachedDecoder(model, sampling) if name == "cached" else WindowDecoder(model, sampling, config.context)

    def sample() -> Mapping[str, Any]:
        started = time.perf_counter()
        tokens = list(generate(decoder, PROMPT, sampling, end_of_text=-1))
        return {"tokens/s": new / (time.perf_counter() - started), "tokens": tokens}

    answers(sample)


def serve_transformers(new: int) -> None:
    """Answers with the same time for transformers."""
    import torch
    import transformers

    config = transformers.GPT2Config(n_layer=4, n_embd=128, n_head=4, n_inner=256, n_positions=256, vocab_size=50_257)
    model = transformers.GPT2LMHeadModel(config).eval()
    inputs = {"inputs": torch.tensor([PROMPT]), "attention_mask": torch.ones(1, len(PROMPT))}

    def sample() -> Mapping[str, Any]:
        started = time.perf_counter()
        with torch.inference_mode():
            model.generate(**inputs, min_new_tokens=new, max_new_tokens=new, do_sample=False, pad_token_id=0)
        return {"tokens/s": new / (time.perf_counter() - started)}

    answers(sample)


def main() -> None:
    run = Run()
    new = 2 if run.smoke else 128
    ours = ("cached", "window")
    programs = {name: [__file__, "--serve", name, str(new)] for name in ours}
    if find_spec("torch") and find_spec("transformers"):
        programs["transformers"] = [__file__, "--serve", "transformers", str(new)]
    found = alternately(programs, run.rounds(3))
    assert all(each["tokens"] == found["cached"][0]["tokens"] for name in ours for each in found[name])
    speeds = {name: [each["tokens/s"] for each in rows[1:]] for name, rows in found.items()}
    for name, each in speeds.items():
        run.figure(name, each, "tokens/s")
    run.ratio(speeds, "cached", "window", at_least=20)
    if "transformers" in speeds:
        run.ratio(speeds, "cached", "transformers")
    run.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        new_tokens = int(sys.argv[3])
        serve_transformers(new_tokens) if sys.argv[2] == "transformers" else serve(sys.argv[2], new_tokens)
    else:
        main()
