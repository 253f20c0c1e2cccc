"""The charts of a run: loss.png and lr.png."""

from pathlib import Path
from typing import Any

from commandline.files import replace


def draw(folder: Path, metrics: list[dict[str, Any]], title: str) -> None:
    """Draws both charts from the metrics of a run and replaces the existing ones."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import: not before the first chart
    from matplotlib.figure import Figure

    steps = [entry["step"] for entry in metrics]

    def chart(name: str, label: str, lines: list[tuple[str, list[int], list[float], str]], log: bool) -> None:
        figure = Figure(figsize=(8, 4.5))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(title=title, xlabel="step", ylabel=label)
        for line_label, x, y, style in lines:
            axes.plot(x, y, style, label=line_label, linewidth=1.2, markersize=4)
        if log:
            axes.set_yscale("log")
        axes.grid(True, which="both", alpha=0.25)
        axes.legend()
        replace(folder / name, lambda path: figure.savefig(path, format="png", dpi=110))

    validated = [entry for entry in metrics if entry["validation_loss"] is not None]
    chart(
        "loss.png",
        "loss (nats per token)",
        [
            ("train", steps, [entry["loss"] for entry in metrics], "-"),
            ("validation", [e["step"] for e in validated], [e["validation_loss"] for e in validated], "o-"),
        ],
        log=True,
    )
    chart("lr.png", "learning rate", [("learning rate", steps, [e["learning_rate"] for e in metrics], "-")], log=False)
