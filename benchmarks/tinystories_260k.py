"""A model of 265,088 parameters on a file of TinyStories, and what a full run of it would need.

    python benchmarks/tinystories_260k.py FILE [STEPS] [RUNS_FOLDER] [KEY=VALUE...]
    python benchmarks/tinystories_260k.py --smoke

Trains and evaluates with the harness's own commands. The size is that of llama2.c's stories260K (width 64, context
512), whose full run has 100,000 steps of 128 rows of 512 tokens (llama2.c, doc/stories260K.md). Its tokenizer has 512
tokens and `pocket-2k` has 2,048, so this model has 4 narrower blocks instead of 5. Its losses compare in bits per byte
only.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import as_options, smoke

from harness.run.folder import Run

SETTINGS = dict(
    context=512, d_model=64, num_heads=8, num_layers=4, d_ff=128, positions="rope", packing="packed",
    activation="gelu", batch_size=8, learning_rate=3e-3,
    final_lr_fraction=0.1, beta2=0.99, weight_decay=0.01, eval_batches=0, eval_every=50,
)  # fmt: skip
FULL_RUN_TOKENS = 100_000 * 128 * 512


def harness(*arguments: object) -> None:
    """Runs `harness ARGUMENTS`, whose output is this program's."""
    subprocess.run([sys.executable, "-m", "harness", *map(str, arguments)], check=True)


def main(file: Path, steps: int, root: Path, changes: list[str]) -> None:
    """Trains for `steps` steps, evaluates, and prints losses, speed and the cost of a full run."""
    options = as_options(*(f"{key}={value}" for key, value in SETTINGS.items()), *changes)
    name = "tinystories-260k"
    harness("train", "--run", name, "--runs", root, "--data", file, "--steps", steps, *options)
    harness("eval", name, "--runs", root)
    metrics = Run(root / name).metrics()
    speed = statistics.median(entry["tokens_per_s"] for entry in metrics)
    best = min(
        (entry for entry in metrics if entry["validation_loss"] is not None), key=lambda entry: entry["validation_loss"]
    )
    print(f"\nvalidation loss   {best['validation_loss']:.4f} nats per token (step {best['step']})")
    print(f"bits per byte     {best['validation_bits_per_byte']:.4f}")
    print(f"tokens/s          {speed:,.0f}")
    print(f"tokens seen       {metrics[-1]['tokens']:,}")
    print(f"a full run needs  {FULL_RUN_TOKENS:,} tokens: {FULL_RUN_TOKENS / speed / 3600:,.0f} hours at this speed")


if __name__ == "__main__":
    if smoke():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "stories.txt")
            file.write_text("".join(f"The cat saw {number} birds.<|endoftext|>" for number in range(400)))
            main(file, 2, Path(folder), ["context=16", "eval_every=1", "eval_batches=1"])
        sys.exit()
    if len(sys.argv) < 2:
        sys.exit(f"{__doc__.splitlines()[2].strip()}: FILE is missing.")
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 200,
        Path(sys.argv[3] if len(sys.argv) > 3 else "runs"),
        sys.argv[4:],
    )
