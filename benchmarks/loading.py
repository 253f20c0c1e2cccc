"""The memory that a model in Hugging Face's format takes while it is loaded, against the size of its float32
parameters.

    python benchmarks/loading.py [LAYERS] [--smoke]

Writes a Qwen 2.5 with random weights in bfloat16, in four files, and takes it as the base of a run with adapters. The
bar: at most 1.15 times the size of the state, over what the process took before. Programs that are compiled meanwhile
count, so a small model has a worse ratio.
"""

import dataclasses
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
import psutil
from ml_dtypes import bfloat16
from safetensors.numpy import save_file
from timing import smoke

from harness.config import Config
from harness.hugging_face.layouts import QWEN2
from harness.hugging_face.load import read_config
from harness.hugging_face.parameters import shapes
from harness.run.folder import Run
from harness.run.run_session import ignore, open_session
from harness.run.state import initial_state

FILES = 4
MODEL = dataclasses.replace(
    Config(), preset="", vocab_size=32_000, vocab_multiple=1, context=256, d_model=1024, num_heads=16, num_kv_heads=4,
    d_ff=2816, norm_kind="rmsnorm", activation="swiglu", bias=False, attention_bias="qkv", positions="rope",
)  # fmt: skip


def write_model(config: Config, folder: Path) -> None:
    """Writes random weights and their config.json."""
    rng, index = np.random.default_rng(0), {}
    parameters = {path: 0.02 * rng.standard_normal(shape, "float32") for path, shape in shapes(config.model).items()}
    tensors = QWEN2.tensors(parameters)
    for number in range(FILES):
        part = {name: tensors[name].astype(bfloat16) for name in sorted(tensors)[number::FILES]}
        save_file(part, folder / f"{number}.safetensors")
        index |= dict.fromkeys(part, f"{number}.safetensors")
    fields = {"model_type": QWEN2.model_type, "vocab_size": config.vocab_size, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(fields | QWEN2.fields(config.model)))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def load(folder: Path, runs: Path) -> tuple[float, float]:
    """The peak of the memory over that before, and the size of the state, in bytes."""
    config = dataclasses.replace(
        MODEL, **read_config(folder), base=f"hf:{folder}", lora_rank=2, data="pocket:50", batch_size=1, steps=2
    )
    session = open_session(Run(runs / "tuned"), config, None, log=ignore, quiet=True)
    process, done = psutil.Process(), threading.Event()
    before = peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    state, _ = jax.block_until_ready(initial_state(session))
    done.set()
    watcher.join()
    return peak - before, sum(leaf.nbytes for leaf in jax.tree.leaves(state))


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a process of its own, which begins with no memory of others."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def main() -> None:
    tiny = smoke()
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 2 if tiny else 44
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "model")
        folder.mkdir()
        start = time.perf_counter()
        alone(write_model, dataclasses.replace(MODEL, num_layers=layers), folder)
        print(f"written in {time.perf_counter() - start:.0f} s", flush=True)
        start = time.perf_counter()
        peak, size = alone(load, folder, Path(temporary))
    print(f"{size / 1e9:.2f} GB of state, loaded in {time.perf_counter() - start:.0f} s")
    print(f"peak {peak / 1e9:.2f} GB: {peak / size:.2f} times its size (bar 1.15)")


if __name__ == "__main__":
    main()
