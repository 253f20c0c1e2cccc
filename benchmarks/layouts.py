"""Models of `transformers` in the harness: what their logits differ by, and whether the commands continue a prompt as
they do.

    python benchmarks/layouts.py [--smoke] [--write]

Of each kind, a small model with random weights is saved by transformers and opened as `hf:DIR`. Greedy texts are those
of `harness sample` and of transformers' `generate`. Products in bfloat16 are compared with transformers in float32, and
have no bar. Needs torch and transformers.
"""

import dataclasses
import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from flax import nnx
from timing import Run, output

from harness.cli.options import open_model
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import to_json
from harness.model.general import make_gpt
from tests.harness.hugging_face.saved import MODELS, logits_of, saved

BAR = 1e-4
NEW = 64  # tokens
PROMPT = "Once upon a time, there was"
TOKENIZER = get_tokenizer("pocket-2k")


def compare(name: str, folder: Path) -> tuple[float, float, bool]:
    """The largest differences of the logits in float32 and in bfloat16, and whether the texts differ."""
    import torch

    theirs = saved(name, folder, TOKENIZER.n_vocab, TOKENIZER.eot_token)
    (folder / "tokenizer.json").write_text(json.dumps(to_json(TOKENIZER)))
    _, model, _ = open_model(folder, f"hf:{folder}", None, None)
    rounded = make_gpt(dataclasses.replace(model.config, dtype="bfloat16"), nnx.Rngs(0))
    nnx.update(rounded, nnx.state(model))
    ids = np.random.default_rng(0).integers(0, TOKENIZER.n_vocab, 100)
    expected = logits_of(theirs, ids.tolist())
    exact, half = (float(abs(np.asarray(each(ids)) - expected).max()) for each in (model, rounded))

    prompt = TOKENIZER.encode(PROMPT)
    inputs = {"inputs": torch.tensor([prompt]), "attention_mask": torch.ones(1, len(prompt))}
    generated = theirs.generate(**inputs, max_new_tokens=NEW, do_sample=False, pad_token_id=TOKENIZER.eot_token)
    ended = [*generated[0].tolist(), TOKENIZER.eot_token]
    text = TOKENIZER.decode(ended[: ended.index(TOKENIZER.eot_token)])
    greedy = ["--temperature", "0", "--max-tokens", str(NEW), "--prompt", PROMPT]
    return exact, half, output([sys.executable, "-m", "harness", "sample", f"hf:{folder}", *greedy]) != f"{text}\n"


def main() -> None:
    run = Run()
    if find_spec("torch") is None or find_spec("transformers") is None:
        print("This needs torch and transformers. Nothing was compared.")
        sys.exit(0 if run.smoke else 2)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    for name in list(MODELS)[: 1 if run.smoke else None]:
        with tempfile.TemporaryDirectory() as folder:
            exact, half, other = compare(name, Path(folder))
        run.figure(f"{name}, float32", exact, at_most=BAR)
        run.figure(f"{name}, bfloat16", half)
        run.figure(f"{name}, other texts of {NEW} greedy tokens", int(other), at_most=0)
    run.end()


if __name__ == "__main__":
    main()
