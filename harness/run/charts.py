"""The charts: loss.png and lr.png of a run, or reward.png of reinforcement learning, and the losses of several runs."""

from functools import partial
from pathlib import Path
from typing import Any

from commandline.files import replace
from harness.data.ngrams import NgramLoss


def draw(folder: Path, metrics: list[dict[str, Any]], title: str, ngrams: NgramLoss | None) -> None:
    """Draws the charts from the metrics of a run and replaces the existing ones."""
    if any("reward" in entry for entry in metrics):
        figures = {"reward.png": rewards(metrics, title)}
    else:
        figures = {"loss.png": losses(metrics, title, ngrams), "lr.png": learning_rates(metrics, title)}
    for name, figure in figures.items():
        replace(folder / name, partial(figure.savefig, format="png", dpi=110))


def losses(metrics: list[dict[str, Any]], title: str, ngrams: NgramLoss | None) -> Any:
    """The losses over the steps, on a logarithmic axis, with those of the n-gram models as lines. A matplotlib figure."""
    axes = _axes(title, "loss (nats per token, log scale)")
    validated = [entry for entry in metrics if entry["validation_loss"] is not None]
    axes.plot(_steps(metrics), [entry["loss"] for entry in metrics], label="train", linewidth=0.8, alpha=0.7)
    validation = [entry["validation_loss"] for entry in validated]
    axes.plot(_steps(validated), validation, "o-", label="validation", linewidth=1.4, markersize=4)
    if ngrams:
        axes.axhline(ngrams.unigram, label=f"unigram model, {ngrams.unigram:.2f}", color="0.5", linestyle=":")
        axes.axhline(ngrams.bigram, label=f"bigram model, {ngrams.bigram:.2f}", color="0.3", linestyle="--")
    _scale_by_logarithm(axes)
    axes.legend(frameon=False)
    return axes.figure


def comparison(runs: dict[str, list[dict[str, Any]]], key: str, label: str) -> Any:
    """The validation losses `key` of several runs, from their metrics by name, over the steps. A matplotlib figure."""
    axes = _axes("", f"{label}, log scale")
    for name, metrics in runs.items():
        validated = [entry for entry in metrics if entry.get(key) is not None]
        axes.plot(_steps(validated), [entry[key] for entry in validated], "o-", label=name, linewidth=1.4, markersize=4)
    _scale_by_logarithm(axes)
    axes.legend(frameon=False)
    return axes.figure


def learning_rates(metrics: list[dict[str, Any]], title: str) -> Any:
    """The learning rate over the steps. A matplotlib figure."""
    axes = _axes(title, "learning rate")
    axes.plot(_steps(metrics), [entry["learning_rate"] for entry in metrics], linewidth=1.2)
    axes.ticklabel_format(axis="y", scilimits=(-2, 4), useMathText=True)
    return axes.figure


PANELS = {
    "reward": "reward",
    "kl": "KL from the base\n(nats per token)",
    "entropy": "entropy\n(nats per token)",
    "length": "length (tokens)",
    "validation_loss": "validation loss\n(nats per token)",
}


def rewards(metrics: list[dict[str, Any]], title: str) -> Any:
    """The reward over the updates, above what it may cost: distance from the base, variety, length, validation loss."""
    figure = _figure(8.0, 9.5)
    panels = {name: label for name, label in PANELS.items() if any(entry.get(name) is not None for entry in metrics)}
    for index, (name, label) in enumerate(panels.items()):
        axes = figure.add_subplot(len(panels), 1, index + 1, ylabel=label)
        drawn = [entry for entry in metrics if entry.get(name) is not None]
        style = "o-" if name == "validation_loss" else "-"
        axes.plot(_steps(drawn), [entry[name] for entry in drawn], style, linewidth=1.2, markersize=4)
        axes.set_xlim(0, max(_steps(metrics)) + 1)
        _plain(axes)
        if index + 1 < len(panels):
            axes.tick_params(labelbottom=False)
    figure.axes[0].set_title(title)
    figure.axes[0].set_ylim(bottom=min(0, *figure.axes[0].get_ylim()))
    figure.axes[-1].set_xlabel("update")
    figure.align_ylabels()
    return figure


def range_test(rates: Any, losses: Any, smoothed: Any, suggested: float, title: str) -> Any:
    """The loss over the learning rate of a range test, both on logarithmic axes. A matplotlib figure."""
    axes = _axes(title, "loss (nats per token, log scale)")
    axes.set(xscale="log", xlabel="learning rate (log scale)")
    axes.plot(rates, losses, label="loss", linewidth=0.8, alpha=0.7)
    axes.plot(rates, smoothed, label="smoothed", linewidth=1.4)
    axes.axvline(suggested, label=f"steepest descent, {suggested:.1e}", color="0.3", linestyle="--")
    _scale_by_logarithm(axes)
    axes.legend(frameon=False)
    return axes.figure


def _steps(metrics: list[dict[str, Any]]) -> list[int]:
    return [entry["step"] for entry in metrics]


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import: not before the first chart
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _axes(title: str, label: str) -> Any:
    axes = _figure(8.0, 4.5).add_subplot(title=title, xlabel="step", ylabel=label)
    _plain(axes)
    return axes


def _plain(axes: Any) -> None:
    """Whole steps, a light grid, no box."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, alpha=0.25)


def _scale_by_logarithm(axes: Any) -> None:
    """Makes the vertical axis logarithmic, with ticks such as 1.5, because a loss may span less than a power of ten."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    leading: tuple[float, ...] = (1, 2, 5) if high > 20 * low else (1, 1.5, 2, 3, 4, 5, 6, 8)
    if high < 2 * low:
        leading = tuple(n / 10 for n in range(10, 100))
    axes.yaxis.set_major_locator(LogLocator(subs=leading, numticks=15))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
