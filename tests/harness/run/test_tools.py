"""Rollouts in turns: what the model wrote is sampled, what a tool said is not, and a model learns that a call pays."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from harness.config import Config
from harness.errors import PieceError, UsageError
from harness.pieces.load import Pieces, check_pieces
from harness.run.folder import Run
from harness.run.pass_rate import pass_rates
from harness.run.rollouts import Continuation, continued
from harness.run.run_session import Session, ignore, open_session
from harness.run.tasks import Prompt, Task, get_problems, text_task
from harness.training.grpo import log_probabilities
from tests.harness.conftest import TINY, Harness
from tests.harness.pieces.shared import only

CALL, RESULT, END = 254, 255, 256
CONFIG = replace(
    TINY, data="tools:400", tokenizer="bytes", packing="padded", context=72, vocab_size=257, head_bias=True,
    batch_size=12, prompt_tokens=18, max_calls=2, max_result=17,
)  # fmt: skip
ERROR, REFUSED = "error: not a call", "error: no ca[cut]"  # 17 tokens each


def opened(folder: Path, config: Config = CONFIG, pieces: Pieces | None = None) -> tuple[Session, Any]:
    """A session, and a model that likes to write calls and ends, and has learned nothing else."""
    session = open_session(Run(folder), config, pieces, log=ignore, quiet=True)
    model = session.functions.model(session.functions.init())
    model.head_bias[...] = model.head_bias[...].at[jnp.array([CALL, END])].set(6.0)
    return session, model


def problems(session: Session) -> tuple[Task, list[Prompt]]:
    """The task, and prompts of two lengths."""
    task = text_task(get_problems("tools"), session.config, session.tokenizer)
    prompts = task.draw(np.random.default_rng(0), 10)
    return task, [*prompts[:5], *(each._replace(ids=(32, *each.ids)) for each in prompts[5:])]


def written(session: Session, model: Any, scored: bool = False) -> tuple[list[Prompt], list[Continuation]]:
    task, prompts = problems(session)
    return prompts, continued(session, model, task, prompts, 5, scored=scored)


def test_what_a_tool_said_is_not_sampled_and_the_rest_has_its_probability(tmp_path: Path) -> None:
    session, model = opened(tmp_path)
    prompts, found = written(session, model, scored=True)
    for prompt, each in zip(prompts, found, strict=True):
        ids = np.array(each.ids)
        results = ids[~np.array(each.sampled)].tolist()
        texts = [session.tokenizer.decode(part) for part in _between(results)]
        assert texts == [ERROR, ERROR, *[REFUSED] * 9][: len(texts)]
        assert each.ended == (each.ids[-1] == END and CALL not in each.answer and each.sampled[-1])
        assert len(ids) <= CONFIG.context + 1 - CONFIG.prompt_tokens
        row = (
            jnp.full((1, CONFIG.context + 1), -1)
            .at[0, : len(prompt.ids) + len(ids)]
            .set(jnp.array([*prompt.ids, *each.ids]))
        )
        log_p_BT, _ = log_probabilities(CONFIG, model, row)
        expected = np.asarray(log_p_BT)[0, len(prompt.ids) - 1 :][: len(ids)]
        np.testing.assert_allclose(each.log_p, np.where(each.sampled, expected, 0), rtol=1e-4, atol=1e-5)
    assert max(each.calls for each in found) > 2
    assert {each.ended for each in found} == {True, False}
    assert any(each.ended and each.calls for each in found)


def _between(tokens: list[int]) -> list[list[int]]:
    """What stands between the marks of results."""
    starts, ends = ([place for place, token in enumerate(tokens) if token == mark] for mark in (RESULT, END))
    assert len(starts) == len(ends)
    return [tokens[start + 1 : stop] for start, stop in zip(starts, ends, strict=True)]


@pytest.mark.thorough
def test_a_shared_cache_and_the_pieces_of_the_loop_give_the_same(pieces: Pieces, tmp_path: Path) -> None:
    expected = written(*opened(tmp_path / "own"))[1]
    paged = replace(CONFIG, cache_blocks=30, cache_block_size=4, cache_rows=4)
    assert written(*opened(tmp_path / "paged", paged))[1] == expected
    assert written(*opened(tmp_path / "pieces", CONFIG, only(pieces, "call_tools", "loss_mask")))[1] == expected


@pytest.mark.thorough
def test_a_piece_that_chooses_tokens_takes_turns_as_well(pieces: Pieces, tmp_path: Path) -> None:
    _, found = written(*opened(tmp_path, CONFIG, only(pieces, "sampling_distribution")))
    assert any(each.calls and each.ended for each in found)
    assert {sum(not sampled for sampled in each.sampled) for each in found if each.calls} - {0}


def test_evaluation_counts_calls(tmp_path: Path) -> None:
    rates = pass_rates(*opened(tmp_path), "tools", 5, 4)
    assert rates.solved_PN.shape == (5, 4)
    assert rates.calls is not None
    assert 0 < rates.calls < 6
    assert pass_rates(*opened(tmp_path), "arithmetic", 2, 2).calls is None


@pytest.mark.parametrize(
    ("name", "piece", "message"),
    [
        ("call_tools", lambda *given: [], r"returned \[\] for a call of `add` and a broken one"),
        ("loss_mask", lambda transcript: [True] * 4, "only the two tokens of the model were expected to learn"),
    ],
)
def test_a_broken_piece_is_reported(name: str, piece: Callable[..., Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(PieceError, match=message):
        check_pieces({name: piece}, tmp_path)


@pytest.mark.parametrize(
    ("name", "piece", "message"),
    [
        ("call_tools", lambda *given: [[999]], r"call_tools returned \[\[999\]\]; it must return a list of lists"),
        ("call_tools", lambda *given: None, "call_tools returned None; it must return a list of lists of token ids"),
        ("loss_mask", lambda transcript: [True], r"loss_mask returned \[True\] for \d+ tokens"),
    ],
)
def test_pieces_that_fail_later_are_named(
    name: str, piece: Callable[..., Any], message: str, pieces: Pieces, tmp_path: Path
) -> None:
    session, model = opened(tmp_path)
    broken = replace(session, pieces=replace(pieces, by_name={name: piece}))
    with pytest.raises(PieceError, match=message):
        written(broken, model)


def test_a_model_without_marks_is_refused(tmp_path: Path) -> None:
    session = open_session(Run(tmp_path), replace(TINY, prompt_tokens=9, context=40), None, log=ignore, quiet=True)
    model = session.functions.model(session.functions.init())
    with pytest.raises(UsageError, match=r"only tokenizer=bytes has room for. Train .* --preset tools"):
        pass_rates(session, model, "tools", 2, 2)


@pytest.mark.thorough
def test_the_command_counts_calls_and_weighs_what_was_sampled(harness_here: Harness, tmp_path: Path) -> None:
    small = [f"--set={each}" for each in ("d_model=16", "num_heads=2", "num_layers=1", "d_ff=16", "eval_batches=1")]
    trained = harness_here(
        "train", "--preset", "tools", "--data", "tools:200", "--steps", 2, "--run", "base", "--set", "batch_size=4",
        *small, "--quiet",
    )  # fmt: skip
    assert trained.code == 0, trained.err
    options = ("--prompts", 2, "--group", 4, "--steps", 2, "--set", "max_weight=2", "--set", "eval_every=2")
    result = harness_here("rl", "base", "--task", "tools", *options, "--quiet")
    assert result.code == 0, result.err
    for entry in Run(tmp_path / "runs" / "base-rl").metrics():
        assert {"calls", "reward", "pass_at_1", "clip_fraction"} <= {*entry}
    evaluated = harness_here("eval", "base-rl", "--task", "tools", "--problems", 2, "--samples", 2)
    assert "of tools in an answer" in evaluated.out


@pytest.mark.thorough
def test_a_model_that_mostly_guesses_learns_to_call(harness_here: Harness, tmp_path: Path) -> None:
    trained = harness_here("train", "--preset", "tools", "--quiet")
    assert trained.code == 0, trained.err
    reinforced = harness_here("rl", "tools", "--task", "tools", "--steps", 25, "--set", "learning_rate=1e-3", "--quiet")
    assert reinforced.code == 0, reinforced.err
    entries = Run(tmp_path / "runs" / "tools-rl").metrics()
    before, after = ({key: np.mean([entry[key] for entry in some]) for key in ("pass_at_1", "calls")}
                     for some in (entries[:2], entries[-5:]))  # fmt: skip
    assert before["pass_at_1"] < 0.4 > before["calls"]
    assert after["pass_at_1"] > 0.8 < after["calls"]
