"""Resuming a run requires its data and its settings. Using a trained model requires neither the data nor the same
machine."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.config import Config
from harness.errors import UsageError
from harness.model.sampling import Sampling
from harness.presets import preset
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from harness.run.state import load_state
from tests.harness.conftest import Harness
from tests.harness.conftest import command as command_line

GREEDY = Sampling(temperature=0.0, max_tokens=4)
DETERMINED = ("step", "loss", "learning_rate", "gradient_norm", "skipped", "tokens", "validation_loss")


def finish(folder: Path, config: Config) -> Run:
    run = Run(folder)
    assert train(open_session(run, config, None, log=ignore, quiet=True), log=ignore, quiet=True)
    return run


def determined(run: Run) -> list[dict[str, object]]:
    """The metrics that the config determines."""
    return [{key: entry[key] for key in DETERMINED} for entry in run.metrics()]


def test_a_model_is_used_without_its_data(
    tiny: Config, stories_file: Path, tmp_path: Path, harness_here: Harness
) -> None:
    run = finish(tmp_path / "runs" / "a", tiny)
    stories_file.unlink()
    session = open_session(run, tiny, None, log=ignore, quiet=True)
    _, state = load_state(session)
    assert list(session.tokens(session.functions.model(state), [1, 2], GREEDY))
    for command in (("sample", "a", "--max-tokens", 4), ("eval", "a")):
        result = harness_here(*command)
        assert (result.code, "There is no file" in result.err) == ((0, False) if command[0] == "sample" else (2, True))


def test_a_run_is_not_resumed_with_other_data(tiny: Config, stories_file: Path, tmp_path: Path) -> None:
    run = finish(tmp_path / "runs" / "a", tiny)
    former, text = run.data().key, stories_file.read_text()
    stories_file.write_text(text + "One more.<|endoftext|>")
    with pytest.raises(UsageError, match=rf"stories.txt had the key {former}, and now has \w{{16}}\."):
        finish(run.folder, tiny)
    stories_file.write_text(text)
    with pytest.raises(UsageError, match=r"(?s)different settings.*validation_fraction: 0.02 -> 0.1"):
        finish(run.folder, replace(tiny, validation_fraction=0.1))
    before = run.metrics()
    assert finish(run.folder, tiny).metrics() == before
    run.data_file.write_text("[]")
    with pytest.raises(UsageError, match=r"data.json is not the record of a run's data \(TypeError\)"):
        finish(run.folder, tiny)


def test_a_run_of_an_older_version_takes_the_data_that_it_finds(tiny: Config, tmp_path: Path) -> None:
    run = finish(tmp_path / "runs" / "a", tiny)
    run.data_file.unlink()
    assert run.data().key == ""
    assert finish(run.folder, tiny).data().key


@pytest.mark.thorough
def test_a_run_of_an_older_version_ends_by_the_schedule_that_it_began_with(
    tiny: Config, tmp_path: Path, harness_here: Harness
) -> None:
    """Its config says nothing of where the schedule starts; also where its command names a preset."""
    names = ("data", "context", "d_model", "d_ff", "steps", "batch_size", "eval_every", "eval_batches", "mesh")
    settings = {name: str(getattr(tiny, name)) for name in names}
    config = replace(preset("pocket").with_options(settings), warmup_steps=3, schedule_start=0)
    run = finish(tmp_path / "runs" / "a", config)
    before = determined(run)
    assert before[0]["learning_rate"] == pytest.approx(1e-5 * config.learning_rate, rel=0.1)
    stored = json.loads(run.config_file.read_text())
    del stored["schedule_start"]
    run.config_file.write_text(json.dumps(stored))
    run.checkpoints.joinpath("6").rename(tmp_path / "away")
    typed = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    resumed = harness_here("train", "--preset", "pocket", "--run", "a", *typed, "--set", "warmup_steps=3", "--quiet")
    assert resumed.code == 0, resumed.err
    assert "resuming at step 3 of 6" in resumed.err
    assert determined(run) == before
    new = harness_here("train", "--preset", "pocket", "--run", "b", *typed, "--set", "warmup_steps=3", "--quiet")
    assert new.code == 0, new.err
    rates = [entry["learning_rate"] for entry in Run(tmp_path / "runs" / "b").metrics()]
    assert rates[:5] == pytest.approx([*(entry["learning_rate"] for entry in before[1:])])


def test_a_run_with_several_stories_per_row_resumes_exactly(tiny: Config, tmp_path: Path) -> None:
    config = replace(tiny, packing="segments")
    run = finish(tmp_path / "runs" / "a", config)
    before = determined(run)
    run.checkpoints.joinpath("6").rename(tmp_path / "away")
    assert determined(finish(run.folder, config)) == before
    with pytest.raises(UsageError, match=r"(?s)different settings.*packing: segments -> padded"):
        finish(run.folder, replace(tiny, packing="padded"))


@pytest.mark.thorough
def test_added_steps_follow_the_schedule(tiny: Config, tmp_path: Path, harness_here: Harness) -> None:
    """An extended run is the run that had so many steps from the beginning, with the same schedule."""
    config = replace(tiny, final_lr_fraction=0.1)
    run = finish(tmp_path / "runs" / "a", config)
    before = run.metrics()
    result = harness_here("resume", "a", "--steps", 9, "--quiet")
    assert result.code == 0, result.err
    assert run.config() == replace(config, steps=9, schedule_steps=6)
    assert run.metrics()[:6] == before
    assert [entry["learning_rate"] for entry in run.metrics()[6:]] == pytest.approx([1e-3] * 3)
    assert determined(run) == determined(finish(tmp_path / "runs" / "b", run.config()))

    assert "only more can be added" in harness_here("resume", "a", "--steps", 5).err


def test_a_branch_of_the_plateau_ends_as_if_its_decay_had_been_known(
    tiny: Config, tmp_path: Path, harness_here: Harness
) -> None:
    config = replace(tiny, schedule="plateau", final_lr_fraction=0.1, steps=3)
    finish(tmp_path / "runs" / "a", config)
    for value, steps, sentence in (
        (2, 6, "decay_start=2 is not valid; 3 steps are done, so write 3 or more"),
        (6, 6, "decay_start=6 is not valid; it must be between warmup_steps"),
    ):
        refused = harness_here("resume", "a", "--set", f"decay_start={value}", "--steps", steps)
        assert (refused.code, sentence in refused.err) == (2, True), refused.err
    done = harness_here("resume", "a", "--set", "decay_start=4", "--steps", 6, "--quiet")
    assert done.code == 0, done.err
    branch = Run(tmp_path / "runs" / "a")
    assert branch.config() == replace(config, decay_start=4, steps=6)
    assert [entry["learning_rate"] for entry in branch.metrics()] == pytest.approx(
        [5e-3, *[1e-2] * 3, 5.5e-3, 1e-3], rel=1e-4
    )
    assert determined(branch) == determined(finish(tmp_path / "runs" / "b", branch.config()))
    refused = harness_here("resume", "a", "--set", "decay_start=5")
    assert "The plateau of this run ended at step 4, and 6 steps are done." in refused.err


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        ("resume", "a", "--mesh", "2x1"),
        ("train", "--run", "a", "--mesh", "1x2"),
    ],
)
def test_a_run_keeps_its_settings_on_another_machine(
    command: tuple[str, ...], tiny: Config, tmp_path: Path, harness_here: Harness
) -> None:
    run = finish(tmp_path / "runs" / "a", tiny)
    before = [entry["loss"] for entry in run.metrics()]
    run.checkpoints.joinpath("6").rename(tmp_path / "away")
    result = subprocess.run(
        command_line(*command, "--quiet"),
        cwd=tmp_path,
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "resuming at step 3 of 6" in result.stderr
    assert [entry["loss"] for entry in run.metrics()] == pytest.approx(before, rel=1e-4)
    assert run.config() == tiny
    refused = harness_here("resume", "a", "--set", "learning_rate=1")
    assert refused.code == 2
    assert "learning_rate cannot change when a run is resumed. Only remat, " in refused.err
    assert "mesh, fsdp, " in refused.err
    assert "There is no run 'b'" in harness_here("resume", "b").err


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            dict(mixer="latent_attention", d_latent=6, d_rope=4, positions="rope"), marks=pytest.mark.thorough
        ),
        pytest.param(dict(mixer="state_space", positions="none"), marks=pytest.mark.thorough),
        dict(mixer="state_space", attention_every=2, positions="none"),
    ],
)
def test_a_run_with_another_mixer_is_resumed_exactly_and_used(
    settings: dict[str, Any], tiny: Config, tmp_path: Path
) -> None:
    config = replace(tiny, **settings)
    run = finish(tmp_path / "runs" / "a", config)
    before = determined(run)
    run.checkpoints.joinpath("6").rename(tmp_path / "away")
    assert determined(finish(run.folder, config)) == before
    session = open_session(run, config, None, log=ignore, quiet=True)
    _, state = load_state(session)
    assert list(session.tokens(session.functions.model(state), [1, 2], GREEDY))


@pytest.mark.thorough
def test_an_average_of_the_parameters_is_resumed_and_used(tiny: Config, tmp_path: Path) -> None:
    config = replace(tiny, ema_decay=0.9)
    run = finish(tmp_path / "runs" / "a", config)
    before = determined(run)
    assert before != determined(finish(tmp_path / "runs" / "plain", tiny))  # the validation losses are its own
    run.checkpoints.joinpath("6").rename(tmp_path / "away")
    assert determined(finish(run.folder, config)) == before
    session = open_session(run, config, None, log=ignore, quiet=True)
    _, state = load_state(session)
    assert list(session.tokens(session.functions.model(state), [1, 2], GREEDY))
    tuned = finish(tmp_path / "runs" / "tuned", replace(tiny, base="a"))
    assert tuned.base() is not None
