"""The charts of a run: their ticks are plain numbers, and the losses to beat are shown."""

import re
from typing import Any

import pytest

from harness.data.ngrams import NgramLoss
from harness.run.charts import learning_rates, losses

pytestmark = pytest.mark.fast


def metrics(first: float, last: float) -> list[dict[str, Any]]:
    """Those of 40 steps, whose loss falls from `first` to `last`."""
    return [
        {
            "step": step,
            "loss": first * (last / first) ** ((step - 1) / 39),
            "learning_rate": step * 1e-4,
            "validation_loss": last if step % 20 == 0 else None,
        }
        for step in range(1, 41)
    ]


def visible_ticks(axis: Any) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    return [tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


@pytest.mark.parametrize(("first", "last"), [(7.6, 1.6), (2.2, 1.9), (7.6, 0.004)])
def test_the_ticks_are_plain_numbers(first: float, last: float):
    figure = losses(metrics(first, last), "run", None)
    figure.canvas.draw()
    for axis in (figure.axes[0].yaxis, figure.axes[0].xaxis):
        ticks = visible_ticks(axis)
        assert 3 <= len(ticks) <= 15
        assert all(re.fullmatch(r"\d+(\.\d+)?", tick) for tick in ticks), ticks


def test_the_losses_of_the_ngram_models_are_shown():
    (axes,) = losses(metrics(7.6, 1.6), "run", NgramLoss(unigram=5.128, bigram=2.944)).axes
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert shown == ["train", "validation", "unigram model, 5.13", "bigram model, 2.94"]


def test_the_learning_rates():
    (axes,) = learning_rates(metrics(7.6, 1.6), "run").axes
    assert (axes.get_title(), axes.get_ylabel()) == ("run", "learning rate")
    assert list(axes.lines[0].get_xdata()) == list(range(1, 41))
