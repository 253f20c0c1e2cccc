"""Reinforcement learning of a tiny model, as `harness rl` does it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from harness.config import Config
from harness.errors import UsageError
from harness.pieces.load import Pieces
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.rewards import get_reward
from harness.run.run_session import ignore, open_session
from harness.run.state import load_state
from harness.run.tasks import story_task
from tests.conftest import made_once
from tests.harness.conftest import MEASURED, STORIES, TINY, Harness

OPTIONS = ("--prompts", 2, "--group", 4, "--steps", 4, "--set", "eval_every=2", "--set", "prompt_tokens=3")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained run, and its data beside it."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "stories.txt").write_text(STORIES)
        config = replace(TINY, seed=1, data=str(folder / "stories.txt"))  # with this seed, some of its stories end
        assert train(open_session(Run(folder / "run"), config, None, log=ignore, quiet=True), log=ignore, quiet=True)

    return made_once(tmp_path_factory, "base-to-reinforce", make) / "run"


@pytest.fixture
def base(trained: Path, tmp_path: Path) -> Config:
    """The settings of the trained run, now `runs/base`."""
    shutil.copytree(trained, tmp_path / "runs" / "base")
    return Run(trained).config()


def computed(folder: Path) -> list[dict[str, Any]]:
    """The metrics that the config determines."""
    return [{k: v for k, v in entry.items() if k not in MEASURED} for entry in Run(folder).metrics()]


def parameters(folder: Path) -> list[np.ndarray]:
    run = Run(folder)
    session = open_session(run, run.config(), None, log=ignore, quiet=True)
    _, state = load_state(session)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(session.functions.model(state))]


@pytest.mark.usefixtures("charts_and_samples")
def test_a_run_says_what_it_did_and_resumes_exactly(base: Config, tmp_path: Path, harness_here: Harness) -> None:
    result = harness_here("rl", "base", "--reward", "ends", "--json", *OPTIONS, "--set", "learning_rate=0.01")
    assert result.code == 0, result.err
    summary = json.loads(result.out)
    assert set(summary) == {
        "reward_first", "reward_last", "validation_before", "validation_after", "kl", "seconds"
    }  # fmt: skip
    folder = tmp_path / "runs" / "base-rl"
    entries = computed(folder)
    assert [entry["step"] for entry in entries] == [1, 2, 3, 4]
    assert entries[0]["kl"] == pytest.approx(0, abs=1e-6)  # before the first update, the policy is the base
    assert entries[-1]["kl"] > 0
    assert all(0 <= entry["reward"] <= 1 and 0 <= entry["equal_groups"] <= 2 for entry in entries)
    assert "entropy (nats per token)" in (folder / "reward.svg").read_text()
    assert "A sample from base, before" in result.err
    assert "After 4 updates" in result.err
    # The last checkpoint is used, not that with the lowest validation loss; and both are resumed bit for bit.
    expected = parameters(folder)
    shutil.rmtree(folder / "checkpoints" / "4")
    again = harness_here("rl", "base", "--reward", "ends", *OPTIONS, "--set", "learning_rate=0.01", "--quiet")
    assert "resuming at step 2 of 4" in again.err
    assert computed(folder) == entries
    for a, b in zip(expected, parameters(folder), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.thorough
def test_a_run_with_a_paged_cache_has_the_metrics_of_one_without(
    base: Config, tmp_path: Path, harness_here: Harness
) -> None:
    command = ("rl", "base", "--reward", "ends", *OPTIONS, "--set", "learning_rate=0.01", "--quiet")
    assert harness_here(*command, "--run", "whole").code == 0
    paged = (
        *command,
        "--run",
        "paged",
        "--set",
        "cache_blocks=7",
        "--set",
        "cache_block_size=4",
        "--set",
        "cache_rows=3",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.run.run_session.generate_batch", None)  # is not called
        assert harness_here(*paged).code == 0
    expected = computed(tmp_path / "runs" / "whole")
    assert computed(tmp_path / "runs" / "paged") == expected
    # A run that began with the one way is resumed with the other.
    shutil.rmtree(tmp_path / "runs" / "paged" / "checkpoints" / "4")
    again = harness_here(*command, "--run", "paged")
    assert "resuming at step 2 of 4" in again.err
    assert computed(tmp_path / "runs" / "paged") == expected
    for a, b in zip(*(parameters(tmp_path / "runs" / name) for name in ("whole", "paged")), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("base", "--reward", "wrod:x"), 2, "write word:WORD, sentences:N, ends, or FILE.py:FUNCTION"),
        (("bas", "--reward", "ends"), 2, "There is no run 'bas'"),
        (("base", "--reward", "ends", "--group", 1), 2, "group_size=1 is not valid; it must be at least 2"),
        (("base", "--reward", "ends", "--set", "prompt_tokens=16"), 2, "it must be less than context=16"),
        (
            ("base", "--reward", "ends", "--set", "cache_blocks=1"),
            2,
            "a text of context=16 needs 2 blocks of cache_block_size=16",
        ),
        (("base",), 2, "a reward with --reward, or the problems of a task with --task"),
        (("base", "--task", "sums"), 2, "write arithmetic, tools, countdown, gsm8k:FILE.jsonl, or FILE.py"),
        (("base", "--task", "arithmetic", "--set", "prompt_tokens=3"), 2, "--set prompt_tokens="),
        (("base", "--reward", "ends", "--set", "format_weight=0.1"), 2, "format_weight=0.1 needs a task that says"),
        (("base", "--reward", "ends", "--set", "rollout_updates=3"), 2, "does not divide the 32 continuations"),
        (("base", "--reward", "mine.py:score"), 1, "The reward mine.py, line 2 failed: ZeroDivisionError"),
    ],
)
def test_mistakes_are_one_sentence(
    base: Config, tmp_path: Path, harness_here: Harness, options: tuple[object, ...], code: int, message: str
) -> None:
    (tmp_path / "mine.py").write_text("def score(prompt, continuation, ended):\n    return 1 / 0\n")
    result = harness_here("rl", *options, "--quiet")
    assert (result.code, "Traceback" in result.err) == (code, False)
    assert message in result.err
    assert code == 1 or not (tmp_path / "runs" / "base-rl").exists()


@pytest.mark.thorough
def test_a_rare_reward_is_reported_before_training_and_its_file_is_kept(
    base: Config, tmp_path: Path, harness_here: Harness
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def score(prompt, continuation, ended):\n    return 'xylophone' in continuation\n")
    options = ("rl", "base", "--reward", "mine.py:score", *OPTIONS, "--quiet")
    result = harness_here(*options)
    assert result.code == 0
    assert "0 of the first 8 continuations are rewarded. Below 5%" in result.err
    assert "groups of equal rewards     8, which teach nothing" in result.out
    file.write_text(file.read_text() + "\n")
    refused = harness_here(*options)
    assert (refused.code, "mine.py has changed since the run" in refused.err) == (2, True)
    file.unlink()
    assert harness_here(*options).code == 0


TASK = """
def problem(rng):
    return f"Once {rng.choice(['upon', 'there', 'Tom', 'Mia'])} {rng.randrange(100)}"[:rng.choice([6, 20])], "a"

def reward(prompt, continuation, answer):
    return answer in continuation

def has_form(continuation):
    return True
"""


def test_a_task_is_reinforced_and_evaluated_on_held_out_problems(
    base: Config, tmp_path: Path, harness_here: Harness
) -> None:
    (tmp_path / "mine.py").write_text(TASK)
    kept = ("--set", "prompt_tokens=10", "--set", "rollout_updates=2", "--set", "format_weight=0.5")
    skipped = ("--set", "skip_overlong=true", "--set", "skip_equal=true", "--set", "scale_advantages=false")
    command = ("rl", "base", "--task", "mine.py", *OPTIONS[:4], "--steps", 2, "--kl", 0, *kept, *skipped, "--quiet")
    result = harness_here(*command)
    assert result.code == 0, result.err
    for entry in computed(tmp_path / "runs" / "base-rl"):
        assert "kl" not in entry
        assert entry["form"] == 1
        assert entry["reward"] == pytest.approx(entry["pass_at_1"] + 0.5)
        assert 0 <= entry["pass_at_1"] <= entry["pass_at_k"] <= 1
        assert {0 <= entry[name] <= 1 for name in ("clip_fraction", "overlong")} == {True}
    assert "KL" not in result.out
    command = ("eval", "base-rl", "--task", "mine.py", "--problems", 5, "--samples", 3)
    evaluated = harness_here(*command)
    assert evaluated.code == 0, evaluated.err
    assert harness_here(*command, "--set", "cache_blocks=6", "--set", "cache_block_size=4").out == evaluated.out
    refused = harness_here(*command, "--set", "steps=3")
    assert (
        refused.code,
        "--set steps is not valid; the settings of an evaluation are cache_blocks" in refused.err,
    ) == (2, True)
    assert "5 held-out problems, 3 answers to each" in evaluated.out
    assert [line.split()[0] for line in evaluated.out.splitlines()[1:5]] == ["pass@1", "pass@2", "pass@3", "length"]


def test_prompts_are_beginnings_of_stories_and_depend_on_the_update(base: Config, tmp_path: Path) -> None:
    session = open_session(Run(tmp_path / "runs" / "base"), base, None, log=ignore)
    tokens = session.prepared.train
    task = story_task(tokens, session.tokenizer, 4, get_reward("word:a"))
    first, second, again = (task.draw(np.random.default_rng((1, update)), 3) for update in (0, 1, 0))
    assert first == again != second
    beginnings = {tuple(tokens[int(start) : int(start) + 4].tolist()) for start in [0, *tokens.ends[:-1]]}
    assert {prompt.ids for prompt in first} <= beginnings
    assert task.reward(first[0], "a", False) == 1


@pytest.mark.thorough  # tests/harness/pieces/test_grpo.py does it with one piece
def test_a_model_of_pieces_is_reinforced(base: Config, pieces: Pieces, tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "mine")
    assert train(open_session(run, base, pieces, log=ignore, quiet=True), log=ignore, quiet=True)
    config = replace(
        run.config(), base="mine", reward="ends", prompts=1, group_size=2, batch_size=2, prompt_tokens=3, steps=2,
        warmup_steps=0,
    )  # fmt: skip
    reinforced = Run(tmp_path / "runs" / "mine-rl")
    assert train(open_session(reinforced, config, pieces, log=ignore, quiet=True), log=ignore, quiet=True)
    assert [entry["step"] for entry in reinforced.metrics()] == [1, 2]


def test_a_reward_needs_a_base(base: Config) -> None:
    with pytest.raises(UsageError, match="needs a trained model"):
        replace(base, reward="ends")
