"""The presets `pocket` and `modern`: validation losses over tokens and over training time, at equal parameters.

    python benchmarks/modern_preset.py [RUNS_FOLDER] [CHART.png] [--smoke]

Trains both with the harness's own command, one after the other, or resumes them; and `pocket` once more with the
learning rates of `modern`. The bar: `modern` ends with the lowest loss, after at most as many tokens and as much time.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from timing import as_options, smoke

from harness.run.compare import compare, table
from harness.run.folder import Run
from harness.run.metrics_file import training_seconds

RUNS = {  # the label and the options of each run
    "pocket": ("pocket", ["--preset", "pocket"]),
    "pocket-with-rates": ("pocket, rates of modern", ["--preset", "pocket", "--set", "final_lr_fraction=0.02"]),
    "modern": ("modern", ["--preset", "modern"]),
}
TINY = ["--steps", "2", *as_options("data=pocket:200", "context=16", "d_model=16", "d_ff=16", "eval_every=1")]
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]  # tokens, seconds and losses of the validations


def curve(run: Run) -> Curve:
    """The validations of a run."""
    metrics = run.metrics()
    rows = [
        (entry["tokens"], training_seconds(metrics[: number + 1]), entry["validation_loss"])
        for number, entry in enumerate(metrics)
        if entry["validation_loss"] is not None
    ]
    tokens, seconds, losses = np.array(rows).T
    return tokens, seconds, losses


def draw(curves: dict[str, Curve], path: Path) -> None:
    """Draws the losses over tokens, and over time."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axis, label in enumerate(("tokens", "training time (s)")):
        axes = figure.add_subplot(1, 2, axis + 1, xlabel=label, yscale="log")
        for name, values in curves.items():
            axes.plot(values[axis], values[2], "o-", label=name, linewidth=1.4, markersize=4)
        axes.spines[["top", "right"]].set_visible(False)
        axes.ticklabel_format(axis="x", scilimits=(-2, 4), useMathText=True)
        axes.yaxis.set_major_formatter("{x:.2f}")
        axes.yaxis.set_minor_formatter("{x:.2f}")
    figure.axes[0].set_ylabel("validation loss (nats per token, log scale)")
    figure.axes[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(root: Path, chart: Path, *changes: str) -> None:
    """Trains, compares, and draws the chart."""
    for name, (_, options) in RUNS.items():
        where = ["--run", name, "--runs", str(root), "--quiet"]
        command = ["train", *options, *where, *as_options("eval_batches=32"), *changes]
        subprocess.run([sys.executable, "-m", "harness", *command], check=True, stdout=subprocess.DEVNULL)
    print(table(compare([Run(root / name) for name in RUNS])))
    curves = {label: curve(Run(root / name)) for name, (label, _) in RUNS.items()}
    draw(curves, chart)
    *others, (tokens, seconds, losses) = curves.values()
    for other_tokens, other_seconds, other_losses in others:
        no_more = tokens[-1] <= other_tokens[-1] and seconds[-1] <= other_seconds[-1]
        verdict = "met" if no_more and losses[-1] < other_losses[-1] else "MISSED"
        shares = f"{tokens[-1] / other_tokens[-1]:.2f} of the tokens, {seconds[-1] / other_seconds[-1]:.2f} of the time"
        print(f"{losses[-1]:.4f} against {other_losses[-1]:.4f} nats, {shares}: {verdict}")


if __name__ == "__main__":
    if smoke():
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder), Path(folder, "chart.png"), *TINY)
    else:
        main(*map(Path, [*sys.argv[1:], *["runs", "docs/pictures/modern.png"][len(sys.argv) - 1 :]]))
