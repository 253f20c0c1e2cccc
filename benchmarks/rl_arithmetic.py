"""Reinforcement learning of the preset `arithmetic`: pass rates on held-out sums before and after, with three seeds.

    python benchmarks/rl_arithmetic.py [RUNS_FOLDER] [CHART.png] [--smoke]

Trains the preset and reinforces it three times with the harness's own commands, or resumes them. Then each model
answers all held-out sums eight times. Prints a table, and draws what the updates saw. The bar: pass@1 below 30% before,
and above 80% after, with each seed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from timing import as_options, smoke

from harness.cli.options import open_run, prepare_jax
from harness.run.folder import Run
from harness.run.metrics_file import training_seconds
from harness.run.pass_rate import PassRates, pass_rates
from harness.run.state import load_state

SEEDS = (0, 1, 2)
SAMPLES = 8
ALL = 10_000  # more held-out sums than there are
BEFORE, AFTER = 0.3, 0.8
TINY = ["--steps", "2", *as_options("eval_every=1")]
PANELS = {"pass_at_1": "right answers", "length": "length (tokens)", "entropy": "entropy\n(nats per token)"}


def rates(root: Path, name: str, problems: int) -> PassRates:
    """The pass rates of a run on the held-out sums."""
    session = open_run(root, name)
    _, state = load_state(session)
    return pass_rates(session, session.functions.model(state), "arithmetic", problems, SAMPLES)


def row(name: str, of: PassRates, run: Run) -> str:
    """A line of the table."""
    cells = [f"{rate:.1%} ({low:.1%} to {high:.1%})" for rate, low, high in map(of.at, (1, SAMPLES))]
    minutes = training_seconds(run.metrics()) / 60
    return f"| {name} | {' | '.join(cells)} | {of.length:.1f} | {minutes:.1f} |"


def draw(runs: dict[str, Run], path: Path) -> None:
    """Draws what each update saw."""
    figure = Figure(figsize=(7, 6), layout="constrained")
    for index, (key, label) in enumerate(PANELS.items()):
        axes = figure.add_subplot(len(PANELS), 1, index + 1, ylabel=label)
        for name, run in runs.items():
            metrics = run.metrics()
            axes.plot(
                [entry["step"] for entry in metrics], [entry[key] for entry in metrics], label=name, linewidth=1.2
            )
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, alpha=0.25)
    figure.axes[0].yaxis.set_major_formatter("{x:.0%}")
    figure.axes[0].legend(frameon=False)
    figure.axes[-1].set_xlabel("update")
    figure.align_ylabels()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(root: Path, chart: Path, *changes: str, problems: int = ALL, seeds: tuple[int, ...] = SEEDS) -> None:
    """Trains, reinforces, measures, and draws the chart."""
    prepare_jax()
    where = ["--runs", str(root), "--quiet", *changes]

    def harness(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "harness", *words, *where], check=True, stdout=subprocess.DEVNULL)

    harness("train", "--preset", "arithmetic")
    runs = {}
    for seed in seeds:
        name = f"arithmetic-rl-{seed}"
        harness(
            "rl", "arithmetic", "--task", "arithmetic", "--run", name, *as_options(f"seed={seed}", "learning_rate=1e-3")
        )
        runs[f"seed {seed}"] = Run(root / name)
    before = rates(root, "arithmetic", problems)
    print(f"{len(before.solved_PN)} held-out sums, {SAMPLES} answers to each; 95% intervals (Wilson)")
    print(f"| model | pass@1 | pass@{SAMPLES} | length (tokens) | training (minutes) |\n|---|---|---|---|---|")
    print(row("the preset", before, Run(root / "arithmetic")))
    after = {name: rates(root, run.folder.name, problems) for name, run in runs.items()}
    for name, run in runs.items():
        print(row(f"reinforced, {name}", after[name], run))
    draw(runs, chart)
    met = before.at(1)[0] < BEFORE and all(each.at(1)[0] > AFTER for each in after.values())
    print(f"pass@1 below {BEFORE:.0%} before, and above {AFTER:.0%} after: {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    if smoke():
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder), Path(folder, "chart.png"), *TINY, problems=4, seeds=SEEDS[:1])
    else:
        main(*map(Path, [*sys.argv[1:], *["runs", "docs/pictures/arithmetic.png"][len(sys.argv) - 1 :]]))
