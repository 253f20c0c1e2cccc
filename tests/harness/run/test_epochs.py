"""How often a run reads its text: what it says before, while and after it trains."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.config import Config
from harness.data.batches import Mixture
from harness.run.epochs import long_past_best, on_epochs
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.report import report
from harness.run.run_session import Session, ignore, open_session


def opened(config: Config, folder: Path) -> Session:
    return open_session(Run(folder), config, None, log=ignore, quiet=True)


def lines(losses: dict[int, float | None]) -> list[dict[str, float | None]]:
    return [{"step": step, "validation_loss": loss} for step, loss in losses.items()]


def test_epochs_are_the_rows_read_over_the_rows_there_are(tiny: Config, tmp_path: Path) -> None:
    session = opened(replace(tiny, packing="padded", steps=60), tmp_path / "run")
    rows = len(session.rows)
    assert on_epochs(session) == f"60 steps of 8 rows are {60 * 8 / rows:.1f} epochs of stories.txt."
    often = replace(session, config=replace(session.config, steps=-(-10 * rows // 8)))
    assert "learned by heart: --set patience=3 stops soon after the best validation loss." in on_epochs(often)
    assert "patience" not in on_epochs(replace(often, config=replace(often.config, patience=2)))


def test_each_source_of_a_mixture_has_epochs_of_its_own(tiny: Config, tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("The cat saw the moon. " * 60)
    config = replace(tiny, data=f"{tiny.data}:0.5,{short}:0.5", steps=100)
    session = opened(config, tmp_path / "run")
    assert isinstance(session.rows, Mixture)
    few, many = sorted((len(source) for source in session.rows.sources), reverse=True)
    said = on_epochs(session)
    assert f"{400 / few:.1f} epochs of stories.txt" in said
    assert f"{400 / many:.0f} epochs of short.txt" in said


def test_a_run_says_its_epochs_and_that_its_best_validation_is_long_past(tiny: Config, tmp_path: Path) -> None:
    """The end of this text, which is held out, has nothing of its beginning: what is learned makes it less likely."""
    text = tmp_path / "stories.txt"
    text.write_text("The cat saw the moon.\n" * 400 + "Zebras quarrel under bright blue umbrellas!\n" * 9)
    config = replace(tiny, data=str(text), steps=14, eval_every=1, warmup_steps=0, learning_rate=0.05)
    session, said = opened(config, tmp_path / "run"), list[str]()
    assert train(session, log=said.append, quiet=True)
    assert any(line.startswith("14 steps of 8 rows are ") for line in said)
    assert all(", epoch " in line for line in said if line.startswith("step "))
    best = long_past_best(session, session.run.metrics())
    assert best is not None
    past = [line for line in said if "The best validation loss is still" in line]
    assert len(past) == 1
    assert f"that of step {best['step']}" in past[0]
    assert f"The best validation loss is that of step {best['step']}. After it" in report(session)
    assert "epochs of stories.txt" in report(session)
    assert "utilization" not in report(session)  # the peak rate of a CPU is unknown
    assert {entry["mfu"] for entry in session.run.metrics()} == {None}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ({3: 2.0, 6: 2.1, 9: 2.2, 12: 2.3}, 3),
        ({3: 2.0, 6: 2.1, 9: 2.2}, None),  # two validations ago
        ({3: 2.5, 6: 2.1, 9: 2.0, 12: 2.3, 15: 2.3}, None),  # in the second half
        ({3: None, 4: None}, None),
        ({}, None),
    ],
)
def test_the_best_is_long_past_in_the_first_half_and_three_validations_back(
    losses: dict[int, float | None], best: int | None, tiny: Config, tmp_path: Path
) -> None:
    found = long_past_best(opened(tiny, tmp_path / "run"), lines(losses))
    assert (found and found["step"]) == best
