"""loss.png and lr.png of a run."""

from pathlib import Path
from typing import Any

from harness.run.folder import write_atomically


def draw(folder: Path, metrics: list[dict[str, Any]], title: str) -> None:
    """Draws both charts anew from the metrics."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import: not before the first chart
    from matplotlib.figure import Figure

    steps = [entry["step"] for entry in metrics]

    def chart(name: str, label: str, lines: list[tuple[str, list[int], list[float], str]], log: bool) -> None:
        figure = Figure(figsize=(8, 4.5))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(title=title, xlabel="step", ylabel=label)
        for what, x, y, style in lines:
            axes.plot(x, y, style, label=what, linewidth=1.2, markersize=4)
        if log:
            axes.set_yscale("log")
        axes.grid(True, which="both", alpha=0.25)
        axes.legend()
        write_atomically(folder / name, lambda path: figure.savefig(path, format="png", dpi=110))

    validated = [entry for entry in metrics if entry["validation_loss"] is not None]
    chart(
        "loss.png",
        "loss, nats a token",
        [
            ("train", steps, [entry["loss"] for entry in metrics], "-"),
            ("validation", [e["step"] for e in validated], [e["validation_loss"] for e in validated], "o-"),
        ],
        log=True,
    )
    chart("lr.png", "learning rate", [("learning rate", steps, [e["learning_rate"] for e in metrics], "-")], log=False)
