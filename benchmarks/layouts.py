"""Models of `transformers` in the harness: what their logits differ by, and whether the commands continue a prompt as
they do.

    python benchmarks/layouts.py [--smoke]

Of each kind, a small model with random weights is saved by transformers and opened as `hf:DIR`. Greedy texts are those
of `harness sample` and of transformers' `generate`. Products in bfloat16 are compared with transformers in float32. The
bar: in float32, logits within 1e-4 and the same text. Needs torch and transformers.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from flax import nnx
from timing import ROOT, smoke

from harness.cli.options import open_model
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import to_json
from harness.model.general import make_gpt
from tests.harness.hugging_face.saved import MODELS, logits_of, saved

BAR = 1e-4
NEW = 64  # tokens
PROMPT = "Once upon a time, there was"
TOKENIZER = get_tokenizer("pocket-2k")


def row(name: str, folder: Path) -> tuple[float, float, float, bool]:
    """The largest logit, the largest differences in float32 and in bfloat16, and whether the texts are the same."""
    import torch

    theirs = saved(name, folder, TOKENIZER.n_vocab, TOKENIZER.eot_token)
    (folder / "tokenizer.json").write_text(json.dumps(to_json(TOKENIZER)))
    _, model, _ = open_model(folder, f"hf:{folder}", None, None)
    rounded = nnx.merge(
        nnx.graphdef(make_gpt(dataclasses.replace(model.config, dtype="bfloat16"), nnx.Rngs(0))), nnx.state(model)
    )
    ids = np.random.default_rng(0).integers(0, TOKENIZER.n_vocab, 100)
    expected = logits_of(theirs, ids.tolist())
    errors = [float(abs(np.asarray(each(ids)) - expected).max()) for each in (model, rounded)]

    prompt = TOKENIZER.encode(PROMPT)
    generated = theirs.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt)),
        max_new_tokens=NEW,
        do_sample=False,
        pad_token_id=TOKENIZER.eot_token,
    )
    ended = [*generated[0].tolist(), TOKENIZER.eot_token]
    text = TOKENIZER.decode(ended[: ended.index(TOKENIZER.eot_token)])
    greedy = ["--temperature", "0", "--max-tokens", str(NEW), "--prompt", PROMPT]
    command = [sys.executable, "-m", "harness", "sample", f"hf:{folder}", *greedy]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return float(abs(expected).max()), *errors, done.stdout == f"{text}\n"


def main() -> int:
    """Prints the table, and returns the exit code: 0 if each kind meets the bar, 1 if not, 2 without transformers."""
    short = smoke()
    names = list(MODELS)[: 1 if short else None]
    if find_spec("torch") is None or find_spec("transformers") is None:
        print("This needs torch and transformers. Nothing was compared.")
        return 0 if short else 2
    import transformers

    transformers.utils.logging.disable_progress_bar()
    print(f"{'model':<24}{'largest logit':>14}{'float32':>10}{'bfloat16':>10}   {NEW} greedy tokens")
    missed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            largest, exact, rounded, same = row(name, Path(folder))
        missed += exact > BAR or not same
        print(
            f"{name:<24}{largest:>14.1f}{exact:>10.1e}{rounded:>10.1e}   {'the same' if same else 'OTHERS'}", flush=True
        )
    print(f"{len(names) - missed} of {len(names)} within {BAR} in float32, with the same text")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
