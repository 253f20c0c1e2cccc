"""`harness dpo`: pairs of answers from their file to a run that prefers the chosen ones."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.config import Config
from harness.pieces.load import Pieces
from harness.presets import preference_tuning
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import load_state
from tests.harness.conftest import MEASURED, TINY, Harness

WHO = ("cat", "dog", "cow", "hen")
PAIRS = [
    {
        "prompt": f"What does the {who} say {number} times?",
        "chosen": f"It says {number}.",
        "rejected": "I do not know that.",
    }
    for number in range(12)
    for who in WHO
]


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture
def base(tiny: Config, tmp_path: Path) -> Config:
    """A base of two steps, in the folder `runs`."""
    config = replace(tiny, steps=2, warmup_steps=0, context=48, packing="padded", eval_every=2)
    assert train(
        open_session(Run(tmp_path / "runs" / "base"), config, None, log=ignore, quiet=True), log=ignore, quiet=True
    )
    return config


def preferring(base: Config, tmp_path: Path, **typed: Any) -> Config:
    """Settings of a short run on the pairs."""
    settings = {"data": write(tmp_path / "pairs.jsonl", PAIRS), "chat": "plain", "steps": "6", "warmup_steps": "0",
                "batch_size": "4", "eval_every": "2", "mesh": "1x1", "learning_rate": "8e-3"}  # fmt: skip
    return preference_tuning(base, "base", {**settings, **{name: str(value) for name, value in typed.items()}})


def session(tmp_path: Path, name: str, config: Config, pieces: Pieces | None = None) -> Session:
    return open_session(Run(tmp_path / "runs" / name), config, pieces, log=ignore, quiet=True)


def trained(*args: Any) -> list[dict[str, Any]]:
    opened = session(*args)
    assert train(opened, log=ignore, quiet=True)
    return opened.run.metrics()


@pytest.mark.parametrize("lora", [0, pytest.param(4, marks=pytest.mark.thorough)])
def test_a_run_learns_what_is_preferred_and_resumes_exactly(lora: int, base: Config, tmp_path: Path) -> None:
    config = preferring(base, tmp_path, **({"lora_rank": lora, "learning_rate": "5e-2"} if lora else {}))
    lines = trained(tmp_path, "whole", config)
    assert lines[0]["loss"] == pytest.approx(np.log(2), abs=1e-4)
    assert lines[0]["margin"] == pytest.approx(0, abs=1e-4)
    assert lines[-1]["validation_loss"] < 0.5
    assert lines[-1]["validation_accuracy"] == 1.0
    assert lines[-1]["margin"] == pytest.approx(lines[-1]["chosen_reward"] - lines[-1]["rejected_reward"], abs=1e-4)
    whole = session(tmp_path, "whole", config)
    step, state = load_state(whole)
    loss, measured = whole.measure(state)
    assert loss == pytest.approx(next(line["validation_loss"] for line in lines if line["step"] == step), rel=1e-5)
    assert set(measured) == {"chosen_reward", "rejected_reward", "margin", "accuracy"}

    # As after a crash: the folder of a run that has done four of the six steps, with lines that no checkpoint has.
    shutil.copytree(tmp_path / "runs" / "whole", tmp_path / "runs" / "cut")
    shutil.rmtree(tmp_path / "runs" / "cut" / "checkpoints" / "6")
    resumed = trained(tmp_path, "cut", config)
    clean = [[{k: v for k, v in line.items() if k not in MEASURED} for line in each] for each in (lines, resumed)]
    assert clean[0] == clean[1]


@pytest.mark.thorough
def test_accumulated_gradients_and_a_mesh_change_nothing(base: Config, tmp_path: Path) -> None:
    config = preferring(base, tmp_path, steps=2)
    first = trained(tmp_path, "one", config)
    other = trained(tmp_path, "other", replace(config, grad_accumulation_steps=2, mesh="2x1"))
    for key in ("loss", "gradient_norm", "margin"):
        assert [line[key] for line in other] == pytest.approx([line[key] for line in first], rel=1e-3, abs=1e-4), key
    assert other[-1]["validation_loss"] == pytest.approx(first[-1]["validation_loss"], rel=1e-3)


def test_the_command_trains_reports_and_evaluates(harness_here: Harness, base: Config, tmp_path: Path) -> None:
    conversation = [
        {"chosen": [{"role": "user", "content": pair["prompt"]}, {"role": "assistant", "content": pair["chosen"]}],
         "rejected": [{"role": "user", "content": pair["prompt"]}, {"role": "assistant", "content": pair["rejected"]}]}
        for pair in PAIRS
    ]  # fmt: skip
    long = {"prompt": "Why?", "chosen": "Because. " * 60, "rejected": "No."}
    file = write(tmp_path / "mine.jsonl", [long, *conversation])
    run = harness_here("dpo", "base", "--pairs", file, "--steps", 4, "--beta", 0.2, "--mesh", "1x1",
                       "--set", "eval_every=2", "--set", "warmup_steps=0", "--set", "batch_size=4",
                       "--quiet")  # fmt: skip
    assert run.code == 0, run.err
    assert "1 of 44 pairs of mine.jsonl for training is longer than the context of 48 and left out." in run.err
    assert "pairs the right way round" in run.out
    assert "(ln 2: 0.6931)" in run.out
    evaluated = harness_here("eval", "base-dpo")
    assert evaluated.code == 0, evaluated.err
    assert "accuracy" in evaluated.out
    refused = harness_here("eval", "base-dpo", "--data", file, "--field", "messages")
    assert (refused.code, "are evaluated on pairs" in refused.err) == (2, True), refused.err
    assert harness_here("sample", "base-dpo", "--max-tokens", 3).code == 0
    # A run on pairs is a base of other kinds of runs, too.
    few = ("--steps", 1, "--prompts", 2, "--group", 2, "--mesh", "1x1", "--set", "prompt_tokens=30")
    own = ("--task", "arithmetic", "--template", "none", "--set", "data=pocket:60", "--quiet")
    assert harness_here("rl", "base-dpo", *own, *few).code == 0


@pytest.mark.parametrize(
    ("size", "rate", "of_adapters"),
    [(10**6, 2e-4, 2e-3), (10**8, 5e-6, 1e-5), (5 * 10**8, 1e-6, 1e-5), (8 * 10**9, 5e-7, 5e-6)],
)
def test_a_pretrained_model_has_the_rate_of_its_size(size: int, rate: float, of_adapters: float) -> None:
    base, typed = replace(Config(), positions="rope", context=32768), {"data": "x.jsonl", "chat": "plain"}
    config = preference_tuning(base, "hf:base", typed, size)
    assert (config.learning_rate, config.context, config.has_pairs) == (rate, 1024, True)
    config = preference_tuning(base, "hf:base", {**typed, "lora_rank": "8"}, size)
    assert (config.learning_rate, config.lora_targets) == (of_adapters, "attn,mlp")
    assert preference_tuning(base, "hf:base", {**typed, "learning_rate": "0.1"}, size).learning_rate == 0.1
    assert preference_tuning(base, "small", typed, 10**6).learning_rate == 2e-4


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"prompt": "Hi", "chosen": "Yes."},
            "line 1: the record has no field `rejected`. Its fields are: prompt, chosen.",
        ),
        ({"chosen": [{"role": "user", "content": "Hi"}], "rejected": "No."}, "line 1: the pair has no answer"),
        (
            {"prompt": "Hi", "rejected": "No.",
             "chosen": [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Why?"}]},
            "line 1: the pair has no answer at the end of `chosen`",
        ),
    ],
)  # fmt: skip
def test_what_is_no_pair_is_refused(
    record: dict[str, Any], message: str, harness_here: Harness, base: Config, tmp_path: Path
) -> None:
    run = harness_here("dpo", "base", "--pairs", write(tmp_path / "mine.jsonl", [record]), "--mesh", "1x1")
    assert (run.code, message in run.err) == (2, True), run.err


@pytest.mark.thorough
def test_the_piece_gives_the_losses_of_the_harness(tiny: Config, pieces: Pieces, tmp_path: Path) -> None:
    few = replace(pieces, by_name={"MiniGPT": pieces.by_name["MiniGPT"]})
    config = replace(TINY, data=tiny.data, steps=2, warmup_steps=0, context=32, num_layers=1, packing="padded")
    trained(tmp_path, "base", config, few)
    tuning = preferring(Run(tmp_path / "runs" / "base").config(), tmp_path, steps=3)
    own = trained(tmp_path, "own", tuning, few)
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(args)
        return pieces.by_name["dpo_loss"](*args)

    piece = trained(tmp_path, "piece", tuning, replace(few, by_name={**few.by_name, "dpo_loss": counted}))
    assert calls
    for key in ("loss", "margin", "accuracy"):
        assert [line[key] for line in piece] == pytest.approx([line[key] for line in own], rel=1e-3, abs=1e-4), key
    assert own[-1]["loss"] < own[0]["loss"]
