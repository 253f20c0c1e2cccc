"""The charts: loss.svg and lr.svg of a run, reward.svg or preference.svg in their place, and the losses of several
runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from commandline.chart import Chart, Line, Point
from commandline.chart import draw as lay_out
from commandline.files import replace
from harness.run.baselines import NAMES
from harness.run.chart_file import KINDS, svg

Metrics = list[dict[str, Any]]
HEIGHT, PANEL_HEIGHT = 340, 130
EMPTY = Chart("no finite values yet", "", [], [], [], [])


def draw(folder: Path, metrics: Metrics, title: str, baselines: Mapping[str, float]) -> None:
    """Draws the charts from the metrics of a run and replaces the existing ones."""
    if any("reward" in entry for entry in metrics):
        pictures = {"reward.svg": rewards(metrics, title)}
    elif any("margin" in entry for entry in metrics):
        pictures = {"preference.svg": preferences(metrics, title)}
    else:
        pictures = {"loss.svg": losses(metrics, title, baselines), "lr.svg": learning_rates(metrics, title)}
    for name, picture in pictures.items():
        replace(folder / name, picture)


def losses(metrics: Metrics, title: str, baselines: Mapping[str, float]) -> str:
    """Draws the losses over the steps, on a logarithmic axis, with the baselines as lines."""
    lines = [
        Line("train", "k0 faint", _points(metrics, "loss")),
        Line("validation", "k1", _points(metrics, "validation_loss"), has_dots=True),
    ]
    levels = {words: baselines[name] for name, words in NAMES.items() if name in baselines}
    label = "loss (nats per token, log scale)"
    return _picture(title, [lay_out(label, lines, last_step=_last(metrics), levels=levels, is_log=True)])


def comparison(runs: dict[str, Metrics], key: str, label: str) -> str:
    """Draws the validation losses `key` of several runs, from their metrics by name, over the steps."""
    lines = [
        Line(name, f"k{index % KINDS}", _points(metrics, key), has_dots=True)
        for index, (name, metrics) in enumerate(runs.items())
    ]
    last = max(map(_last, runs.values()))
    return _picture("", [lay_out(f"{label}, log scale", lines, last_step=last, is_log=True)])


def learning_rates(metrics: Metrics, title: str) -> str:
    """Draws the learning rate over the steps."""
    return _picture(title, [_panel(metrics, "learning_rate", "learning rate")])


PANELS = {
    "reward": "reward",
    "kl": "KL from the base (nats per token)",
    "entropy": "entropy (nats per token)",
    "length": "length (tokens)",
    "validation_loss": "validation loss (nats per token)",
}


def rewards(metrics: Metrics, title: str) -> str:
    """Draws the reward over the updates, above what it may cost: distance from the base, variety, length, validation
    loss."""
    return _picture(title, [_panel(metrics, key, label) for key, label in PANELS.items()], "update", PANEL_HEIGHT)


OF_PAIRS = {
    "loss": "loss (nats per pair)",
    "validation_loss": "validation loss (nats per pair)",
    "accuracy": "pairs the right way round",
    "chosen_reward": "reward of chosen answers",
    "rejected_reward": "reward of rejected answers",
}


def preferences(metrics: Metrics, title: str) -> str:
    """Draws the losses of pairs of answers, and what the model makes of both answers."""
    return _picture(title, [_panel(metrics, key, label) for key, label in OF_PAIRS.items()], "step", PANEL_HEIGHT)


def range_test(rates: Iterable[float], losses: Iterable[float], smoothed: Iterable[float], suggested: float) -> str:
    """Draws the loss over the learning rate of a range test, both on logarithmic axes."""
    each, average = (_finite(zip(rates, values, strict=True)) for values in (losses, smoothed))
    values = [value for _, value in (*each, *average)]
    lines = [
        Line("loss", "k0 faint", each),
        Line("smoothed", "k1", average),
        Line(f"steepest descent, {suggested:.1e}", "level", [(suggested, min(values)), (suggested, max(values))]),
    ]
    axis, last = "learning rate", each[-1][0]
    chart = lay_out("loss (nats per token, log scale)", lines, last_step=last, is_log=True, axis=axis, is_axis_log=True)
    return _picture("learning-rate range test", [chart], f"{axis} (log scale)")


def _panel(metrics: Metrics, key: str, label: str) -> Chart | None:
    """A chart of one line. Those of rewards and of learning rates begin at zero."""
    line = Line(label, "k0", _points(metrics, key), has_dots=key == "validation_loss")
    return lay_out(label, [line], last_step=_last(metrics), from_zero=key in ("reward", "learning_rate"))


def _picture(title: str, charts: Sequence[Chart | None], axis: str = "step", height: int = HEIGHT) -> str:
    """Draws the charts that have a value."""
    return svg(title, [chart for chart in charts if chart] or [EMPTY], axis, height)


def _points(metrics: Metrics, key: str) -> list[Point]:
    """The finite values of a metric by step."""
    return _finite((entry["step"], entry.get(key)) for entry in metrics)


def _finite(points: Iterable[tuple[float, float | None]]) -> list[Point]:
    return [(float(x), float(y)) for x, y in points if y is not None and math.isfinite(y)]


def _last(metrics: Metrics) -> int:
    return metrics[-1]["step"] if metrics else 0
