"""The presets `pocket` and `modern`: validation losses over tokens and over training time, at equal parameters.

    python benchmarks/modern_preset.py [RUNS_FOLDER] [CHART.png]

Trains both with the harness's own command, one after the other, or resumes them. The bar: at every validation after the first
quarter of the training, `modern` has the lower loss, after as many tokens and after as much time.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from harness.run.compare import compare, table
from harness.run.folder import Run, training_seconds

PRESETS = ("pocket", "modern")
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


def main(root: Path, chart: Path) -> None:
    """Trains, compares, and draws the chart."""
    for name in PRESETS:
        command = ["train", "--preset", name, "--runs", str(root), "--quiet", "--set", "eval_batches=32"]
        subprocess.run([sys.executable, "-m", "harness", *command], check=True, stdout=subprocess.DEVNULL)
    runs = [Run(root / name) for name in PRESETS]
    print(table(compare(runs)))
    curves = {name: curve(run) for name, run in zip(PRESETS, runs, strict=True)}
    draw(curves, chart)
    (old, new), beaten = curves.values(), {}
    for axis, label in enumerate(("tokens", "seconds")):
        late = new[axis] >= old[axis][-1] / 4
        beaten[label] = new[2][late] < np.interp(new[axis][late], old[axis], old[2])
        reached = new[axis][new[2] <= old[2].min()]
        part = f"{reached[0] / old[axis][-1]:.0%} of pocket's {label}" if len(reached) else "never"
        print(f"modern reaches pocket's best loss after {part}")
    print(f"lower at every validation: {all(map(np.all, beaten.values()))}")


if __name__ == "__main__":
    main(*map(Path, [*sys.argv[1:], *["runs", "docs/pictures/modern.png"][len(sys.argv) - 1 :]]))
