"""The charts of a run: their ticks are plain numbers, their lines are named, and a file needs nothing but itself."""

import math
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.run.charts import comparison, learning_rates, losses, range_test, rewards

pytestmark = pytest.mark.fast

SVG = "{http://www.w3.org/2000/svg}"


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


def texts(picture: str, anchor: str | None = None, kind: str | None = None) -> list[str]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}text")
    return [
        str(text.text)
        for text in found
        if text.get("class") == kind and (anchor is None or text.get("text-anchor") == anchor)
    ]


@pytest.mark.parametrize(("first", "last"), [(7.6, 1.6), (2.2, 1.9), (7.6, 0.004)])
def test_the_ticks_are_plain_numbers(first: float, last: float):
    picture = losses(metrics(first, last), "run", {})
    assert texts(picture, "middle") == ["0", "10", "20", "30", "40"]
    ticks = texts(picture, "end")
    assert 3 <= len(ticks) <= 15
    assert all(re.fullmatch(r"\d+(\.\d+)?", tick) for tick in ticks), ticks


def test_every_line_has_a_name():
    picture = losses(metrics(7.6, 1.6), "a <run>", {"bigram": 2.944, "unigram": 5.128, "base": 3.2})
    assert texts(picture, kind="key") == ["train", "validation", "unigram model 5.13", "bigram model 2.94", "base 3.20"]
    assert texts(picture, kind="title") == ["a <run>"]
    assert texts(picture, kind="name") == ["loss (nats per token, log scale)", "step"]
    both = comparison({"a": metrics(7.6, 1.6), "b" * 90: metrics(7.6, 2.6)}, "validation_loss", "loss")
    assert texts(both, kind="key") == ["a", "b" * 90]


def test_the_learning_rates():
    picture = learning_rates(metrics(7.6, 1.6), "run")
    assert texts(picture, kind="name") == ["learning rate", "step"]
    assert texts(picture, "end") == ["0", "0.001", "0.002", "0.003", "0.004"]
    assert texts(picture, kind="key") == []


def test_the_panels_of_reinforcement_learning_share_an_axis():
    entries = [{"step": step, "reward": step / 8, "entropy": 2 - step / 9, "kl": None} for step in range(1, 9)]
    picture = rewards(entries, "run")
    assert texts(picture, kind="name") == ["reward", "entropy (nats per token)", "update"]
    assert texts(picture, "middle") == ["0", "2", "4", "6", "8"]


def test_a_range_test_has_two_logarithmic_axes():
    picture = range_test([1e-4, 1e-3, 1e-2], [5.0, 3.0, math.inf], [5.0, 4.0, math.inf], 1e-3)
    assert texts(picture, kind="key") == ["loss", "smoothed", "steepest descent, 1.0e-03"]
    assert texts(picture, "middle") == ["1e-4", "2e-4", "5e-4", "1e-3"]


def test_a_run_without_a_finite_loss_has_a_chart_that_says_so():
    assert texts(losses([{"step": 1, "loss": None}], "run", {}), kind="name") == ["no finite values yet", "step"]


def test_a_file_fetches_nothing():
    picture = losses(metrics(7.6, 1.6), "run", {})
    assert re.findall(r"https?://[^\"]+", picture) == [SVG[1:-1]]
    assert "@media (prefers-color-scheme: dark)" in picture
