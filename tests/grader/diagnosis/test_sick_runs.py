"""The runs that go wrong: what a cause changes, and when."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness.config import Config
from tasks import sick_causes, sick_runs
from tasks.sick_causes import BAD_BATCH, CAUSES, DEAD_LAYER, OTHER_TOKENIZER, REPEATED_DATA, VALIDATION_LEAK
from tasks.sick_runs import Data, Feed, Illness

SEED, ROWS, VOCABULARY = 3, 16, 2048
NAMES = [cause.name for cause in CAUSES]
OF_DATA = (REPEATED_DATA, BAD_BATCH, OTHER_TOKENIZER, VALIDATION_LEAK)


@pytest.fixture(scope="module")
def data() -> Data:
    return Data(SEED, 64)


def feed(data: Data, cause: str = "") -> Feed:
    return Feed(data, Illness.drawn(cause, SEED) if cause else None, ROWS, VOCABULARY)


@pytest.mark.fast
@pytest.mark.parametrize("cause", NAMES)
def test_a_seed_draws_the_same_each_time(cause: str) -> None:
    drawn = Illness.drawn(cause, SEED)
    assert drawn == Illness.drawn(cause, SEED)
    assert drawn.resumed == Illness.drawn(DEAD_LAYER, SEED).resumed  # it says nothing about the cause
    assert drawn.begins in (0, drawn.resumed + 1) or abs(drawn.begins - drawn.resumed) > sick_runs.FAR


@pytest.mark.fast
@pytest.mark.parametrize("cause", NAMES)
def test_the_data_are_the_same_before_a_cause_begins(cause: str, data: Data) -> None:
    begins, sick, sound = Illness.drawn(cause, SEED).begins, feed(data, cause), feed(data)
    for step in (1, begins - 1):
        assert np.array_equal(sick.batch(max(step, 1)), sound.batch(max(step, 1)))
    assert np.array_equal(sick.batch(begins + 7), sound.batch(begins + 7)) == (
        cause not in OF_DATA or cause == BAD_BATCH
    )


@pytest.mark.fast
def test_a_bad_batch_is_one(data: Data) -> None:
    begins, sick, sound = Illness.drawn(BAD_BATCH, SEED).begins, feed(data, BAD_BATCH), feed(data)
    differ = [step for step in range(1, 151) if not np.array_equal(sick.batch(step), sound.batch(step))]
    assert differ == [begins]


@pytest.mark.fast
def test_repeated_data_are_few_batches(data: Data) -> None:
    begins, sick = Illness.drawn(REPEATED_DATA, SEED).begins, feed(data, REPEATED_DATA)
    assert 3 <= len({sick.batch(step).tobytes() for step in range(begins, 151)}) <= 6


@pytest.mark.fast
def test_a_leak_reads_rows_of_validation(data: Data) -> None:
    begins, held_out = Illness.drawn(VALIDATION_LEAK, SEED).begins, {row.tobytes() for row in data.validation}
    leaked = [row.tobytes() in held_out for row in feed(data, VALIDATION_LEAK).batch(begins)]
    assert 7 <= sum(leaked) <= 10
    assert not any(row.tobytes() in held_out for row in feed(data).batch(begins))


@pytest.mark.fast
def test_another_tokenizer_has_the_same_tokens_under_other_ids(data: Data) -> None:
    begins, sick = Illness.drawn(OTHER_TOKENIZER, SEED).begins, feed(data, OTHER_TOKENIZER)
    ids = sick.ids(begins)
    assert sorted(ids) == list(range(VOCABULARY))
    assert np.mean(ids != np.arange(VOCABULARY)) > 0.5
    assert ids[-1] == VOCABULARY - 1  # a text ends in the same way
    assert np.array_equal(sick.ids(begins - 1), np.arange(VOCABULARY))


@pytest.mark.fast
def test_settings_and_the_restart_say_nothing_about_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(sick_runs, "write", lambda run, folder, resumed, figures: seen.append((run.config, resumed)))
    for cause in NAMES:
        monkeypatch.setattr("sys.argv", ["sick_runs", cause, str(SEED), str(tmp_path)])
        sick_runs.main()
    assert len(seen) == len(CAUSES)
    assert all(each == seen[0] for each in seen)


def test_a_folder_holds_the_run_and_not_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a layer that is dead, which gets no gradient."""
    monkeypatch.setattr(sick_runs, "SAVED", (2,))
    illness = Illness.drawn(DEAD_LAYER, SEED)
    known = {**sick_runs.SETTINGS, "seed": str(SEED), "vocab_size": str(VOCABULARY), "steps": "11", "d_model": "16"}
    run = sick_runs.Run(Config().with_settings(known), illness)
    sick_runs.write(run, tmp_path, illness.resumed, figures=False)
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {
        "metrics.jsonl", "norms.jsonl", "settings.json", "step_2.npz", "sample_2.txt", "loss.svg"
    }  # fmt: skip
    text = "".join(path.read_text() for path in tmp_path.iterdir() if path.suffix != ".npz")
    assert not [name for name in NAMES if name in text]
    metrics, norms = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("metrics", "norms")
    )
    assert [line["step"] for line in metrics if "validation_loss" in line] == [10]
    part = "attention" if illness.strength < 0.5 else "feed_forward"
    dead = f"block{illness.layer}.{part}.gradient"
    assert {line[dead] for line in norms} == {0.0}
    assert all(each > 0 for line in norms for name, each in line.items() if name.endswith("gradient") and name != dead)


def test_logits_are_those_that_the_model_attends_with(data: Data) -> None:
    """A norm of each head bounds them by the root of its width, however large queries and keys are."""
    known = {**sick_runs.SETTINGS, "d_model": "16", "vocab_size": str(VOCABULARY), "qk_norm": "head"}
    trainer = sick_runs.Trainer(Config().with_settings(known))
    large = sick_runs.scaled(trainer.parts[1], np.array([1.0, 1000.0]))
    logits = trainer.largest_logits(large, feed(data).batch(1))
    assert all(0 < logit <= 8**0.5 + 1e-3 for logit in logits.values())


@pytest.mark.fast
def test_every_change_is_a_setting_of_the_harness() -> None:
    for change in sick_causes.CHANGES:
        assert Config().with_settings({**sick_runs.SETTINGS, **dict([change.split("=")])})
