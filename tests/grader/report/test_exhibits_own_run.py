"""The best run of a learner's own pieces, as exhibits: its losses beside the bigram model, and its story."""

import json

import pytest

from grader.exhibits import POINTS, Lines, Story
from grader.report import own_run
from grader.report.exhibits_own_run import exhibits

pytestmark = pytest.mark.fast


@pytest.fixture
def runs(tmp_path):
    """A folder with a run of pieces that has 1,200 steps, the best of which is 800."""
    folder = tmp_path / "mine"
    (folder / "samples").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"pieces": ["MiniGPT 01"]}))
    (folder / "baselines.json").write_text(json.dumps({"bigram": 2.28}))
    losses = {400: 0.9, 800: 0.62, 1200: 0.7}
    entries = [{"step": step, "loss": 4 - step / 400, "validation_loss": losses.get(step)} for step in range(1, 1201)]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    for step in losses:
        (folder / "samples" / f"{step:07}.txt").write_text(f"Once there was\na girl of {step}.<|endoftext|>\n")
    return tmp_path


def test_the_best_run_is_shown_with_its_story(runs):
    curves, story = exhibits(own_run.best(runs))
    assert isinstance(curves, Lines)
    training, validation, bigram = curves.lines
    assert len(training.x) <= POINTS
    assert training.x[-1] == 1200
    assert (validation.x, validation.y) == ((400, 800, 1200), (0.9, 0.62, 0.7))
    assert set(bigram.y) == {2.28}
    assert "0.62 nats per token, after 800 steps" in curves.caption
    assert isinstance(story, Story)
    assert story.text == "Once there was\na girl of 800."
    assert "`harness sample mine`" in story.caption


def test_without_a_story_or_a_run_less_is_shown(runs, tmp_path_factory):
    assert exhibits(own_run.best(tmp_path_factory.mktemp("none"))) == []
    for sample in (runs / "mine" / "samples").iterdir():
        sample.unlink()
    assert len(exhibits(own_run.best(runs))) == 1
