"""Charts: ticks that can be read on every axis, and curves in the area of the chart."""

from itertools import pairwise

import pytest

from commandline.chart import Line, draw

pytestmark = pytest.mark.fast


def chart(*points: tuple[float, float], is_log: bool = False):
    drawn = draw("A chart", [Line("yours", "k0", points)], last_step=max(x for x, _ in points), is_log=is_log)
    assert drawn is not None
    return drawn


@pytest.mark.parametrize("low", [1e-5, 0.02, 0.7, 3.0, 4e3, 2.5e6])
@pytest.mark.parametrize("ratio", [1.5, 2, 6, 30, 900, 3e4, 1e7, 1e15])
def test_labels_of_a_logarithmic_axis_do_not_overlap(low, ratio):
    ticks = chart((0, low), (1, low * ratio), is_log=True).y_ticks
    assert len(ticks) >= 2
    assert len({text for text, _ in ticks}) == len(ticks)
    assert all(before - after > 7 for (_, before), (_, after) in pairwise(ticks))  # percent of the height
    assert all(0 <= top <= 100 for _, top in ticks)


@pytest.mark.parametrize(
    ("most", "is_log", "labels"),
    [
        (3.7e3, False, ["0", "1,000", "2,000", "3,000"]),
        (1.2e4, False, ["0", "5k", "10k"]),
        (1.8e-3, False, ["0", "5e-4", "1e-3", "1.5e-3"]),
        (0.18, False, ["0", "0.05", "0.1", "0.15"]),
        (9.0, True, ["1", "2", "5"]),
        (2.0e6, True, ["1", "10", "100", "1k", "10k", "100k", "1M"]),
    ],
)
def test_an_axis_is_labelled_in_one_way(most, is_log, labels):
    assert [text for text, _ in chart((0, 1.0 if is_log else 0.0), (1, most), is_log=is_log).y_ticks] == labels


def test_an_axis_can_begin_below_zero():
    drawn = chart((-10, 3.0), (-2, 1.0))
    assert drawn.x_ticks == [("-10", 0.0), ("-8", 25.0), ("-6", 50.0), ("-4", 75.0), ("-2", 100.0)]
    assert drawn.summary == "yours: 3 at step -10, 1 at step -2"
    around = chart((-6, -1.0), (6, 4.0))
    assert around.x_ticks[1] == ("0", 50.0)
    assert around.lines[0].points[0] == (0.0, 100.0)


def test_one_point_and_no_point():
    assert chart((0, 1.0)).lines[0].dots == [(0.0, 5.66)]
    assert draw("A chart", [Line("yours", "k0", [])], last_step=1) is None


def test_a_spike_among_many_steps_stays_visible():
    drawn = chart(*((step, 100.0 if step == 7_001 else 1.0) for step in range(10_000)))
    (line,) = drawn.lines
    assert len(line.points) <= 402
    assert max(line.points, key=lambda point: -point[1]) == (70.02, 5.66)
