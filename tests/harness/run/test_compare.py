"""`harness compare`: what differs, losses where both runs have them, and which losses do not compare."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli.main import main
from harness.config import Config
from harness.run.compare import compare, table
from harness.run.folder import DataRecord, Run
from tests.harness.conftest import TINY


def make_run(folder: Path, config: Config, steps: int, *, key: str = "k", tokens: int = 100, first: float = 6.0) -> Run:
    """A run after `steps` steps, validated every third one, whose speed is 50 tokens/s."""
    run = Run(folder)
    run.create_or_check(config)
    run.record_data(DataRecord("stories.txt", key))
    lines: list[dict[str, Any]] = [
        {
            "step": step,
            "loss": first / step,
            "tokens": tokens * step,
            "tokens_per_s": 50.0,
            "validation_loss": first / step + 1 if step % 3 == 0 else None,
            "validation_bits_per_byte": first / step if step % 3 == 0 else None,
        }
        for step in range(1, steps + 1)
    ]
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_a_finished_run_and_one_in_progress(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", TINY, 6)
    other = make_run(tmp_path / "other", replace(TINY, num_layers=1, learning_rate=3e-3), 4, tokens=50, first=3.0)
    comparison = compare([one, other])
    assert comparison["settings"] == {"num_layers": [2, 1], "learning_rate": [1e-2, 3e-3]}
    block = 4 * (16 * 16) + 2 * (16 * 24)  # of the weights of matrices; the rest is biases and norms
    assert block < comparison["parameters"][0] - comparison["parameters"][1] < 1.1 * block
    assert (comparison["step"], comparison["tokens"]) == ([6, 4], [600, 200])
    assert (comparison["seconds"], comparison["tokens_per_s"]) == ([12.0, 4.0], [50.0, 50.0])
    assert (comparison["best_step"], comparison["validation_loss"]) == ([6, 3], [2.0, 2.0])
    assert comparison["at_step"] == {"at": 3, "validation_loss": [3.0, 2.0], "validation_bits_per_byte": [2.0, 1.0]}
    assert comparison["at_tokens"] is None, "one has a validation at 300 and 600 tokens, the other at 150"
    assert comparison["notes"] == []
    lines = table(comparison).splitlines()
    assert next(line.split() for line in lines if "learning_rate" in line) == ["learning_rate", "0.01", "0.003"]
    assert len({len(line) for line in lines if line.strip() and not line.startswith("at ")}) == 1, "columns are aligned"


def test_of_pieces_only_those_are_told_that_differ(tmp_path: Path) -> None:
    pieces = [("adamw 1234", "CausalMHA 1234"), ("CausalMHA 1234",), ("CausalMHA 1234", "adamw 5678")]
    comparison = compare([make_run(tmp_path / str(n), replace(TINY, pieces=each), 3) for n, each in enumerate(pieces)])
    row = next(line for line in table(comparison).splitlines() if line.startswith("pieces"))
    assert [cell.strip() for cell in row.removeprefix("pieces").split("  ") if cell.strip()] == [
        "adamw 1234",
        "none",
        "adamw 5678",
    ]


def test_runs_are_compared_at_the_last_step_that_both_have(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "one", TINY, 12), make_run(tmp_path / "other", replace(TINY, seed=1), 9, first=3.0)]
    comparison = compare(runs)
    assert comparison["at_step"]["at"] == 9
    assert comparison["at_step"]["validation_loss"] == [6 / 9 + 1, 3 / 9 + 1]
    assert comparison["at_tokens"]["at"] == 900


@pytest.mark.parametrize(
    ("changes", "key", "notes"),
    [
        ({"tokenizer": "gpt2"}, "k", ["nats per token do not compare, only bits per byte do", "of different parts"]),
        ({"tokenizer": "gpt2", "eval_batches": 0}, "k", ["only bits per byte do", "of different parts"]),
        ({}, "another key", ["The runs have different data"]),
        ({"objective": "copy"}, "k", ["different objectives"]),
        ({"context": 32}, "k", ["of different parts of the validation data"]),
        ({"seed": 3}, "k", []),
    ],
)
def test_losses_that_do_not_compare_are_named(
    tmp_path: Path, changes: dict[str, Any], key: str, notes: list[str]
) -> None:
    runs = [make_run(tmp_path / "one", TINY, 3), make_run(tmp_path / "other", replace(TINY, **changes), 3, key=key)]
    found = compare(runs)["notes"]
    assert len(found) == len(notes)
    assert all(note in sentence for note, sentence in zip(notes, found, strict=True))


def test_a_run_that_has_just_started_or_is_older_has_unknown_values(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "new", TINY, 0), make_run(tmp_path / "old", TINY, 3)]
    older = [
        {key: value for key, value in line.items() if key != "validation_bits_per_byte"} for line in runs[1].metrics()
    ]
    runs[1].metrics_file.write_text("".join(json.dumps(line) + "\n" for line in older))
    comparison = compare(runs)
    assert comparison["validation_bits_per_byte"] == [None, None]
    assert (comparison["validation_loss"], comparison["at_step"]) == ([None, 3.0], None)
    assert "unknown" in table(comparison)


def test_the_command_prints_a_table_or_json_and_draws(tmp_path: Path) -> None:
    make_run(tmp_path / "one", TINY, 6)
    make_run(tmp_path / "other", replace(TINY, seed=1), 6)

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["compare", *arguments, "--runs", str(tmp_path)])
        assert result.exit_code == code
        return result.output

    chart = tmp_path / "chart.svg"
    assert "training time, s" in run("one", "other", "--chart", str(chart))
    assert f">{tmp_path / 'one'}</text>" in chart.read_text()
    assert "chart.svg" in run("one", "other", "--chart", "chart.png", code=2)
    assert json.loads(run("one", "other", "--json"))["settings"] == {"seed": [0, 1]}
    assert "needs two or more different runs" in run("one", "one", code=2)
    assert "Existing runs: one, other" in run("one", "another", code=2)
