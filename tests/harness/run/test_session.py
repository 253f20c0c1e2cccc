"""A run of the workspace's own pieces: data, places, checkpoints, sampling; fine-tuning and export."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.errors import PieceError, UsageError
from harness.model.sampling import Sampling
from harness.pieces import assemble
from harness.pieces.load import Pieces
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.session import Session, load_state, open_session
from harness.training.sharding import path_names
from tests.harness.conftest import TINY

GREEDY = Sampling(temperature=0.0, max_tokens=12)


def only(found: Pieces, *names: str) -> Pieces:
    """The same workspace with these pieces alone."""
    return replace(found, by_name={name: found.by_name[name] for name in names})


def quiet(sentence: str) -> None:
    """Says nothing."""


@pytest.fixture
def course(tiny: Config) -> Config:
    """Six steps of a model of the course's form."""
    return replace(tiny, packing="padded", activation="relu", num_layers=1, seed=3)


def trained(folder: Path, config: Config, found: Pieces | None) -> Session:
    """A run that is finished."""
    session = open_session(Run(folder), config, found, log=quiet, quiet=True)
    assert train(session, log=quiet, quiet=True)
    return session


def losses(session: Session) -> list[float]:
    return [entry["loss"] for entry in session.run.metrics()]


def test_a_run_of_all_pieces_goes_on_where_it_was_and_is_exported(
    found: Pieces, course: Config, tmp_path: Path
) -> None:
    session = trained(tmp_path / "runs" / "whole", course, found)
    keeper = session.checkpointer()
    assert keeper.steps() == [3, 6]

    # As if it had been killed after step 4.
    run = Run(tmp_path / "runs" / "killed")
    begun = trained(run.folder, replace(course), found)
    begun.checkpointer().folder.joinpath("6").rename(tmp_path / "away")
    again = open_session(run, course, found, log=quiet, quiet=True)
    assert train(again, log=quiet, quiet=True)
    assert losses(again) == losses(session)

    step, state = load_state(session)
    text = list(session.tokens(state, [5, 6, 7], GREEDY))
    window = only(found, "MiniGPT")
    assert text == list(replace(session, pieces=window).tokens(state, [5, 6, 7], GREEDY))
    loop = only(found, "MiniGPT", "generate", "sampling_distribution")
    assert text == list(replace(session, pieces=loop).tokens(state, [5, 6, 7], GREEDY))
    assemble.export_model(session.config, found, session.functions.model(state), tmp_path / "exported")
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["n_embd"] == course.d_model
    assert step in (3, 6)


def test_their_cached_step_goes_on_when_the_context_is_full(found: Pieces, course: Config, tmp_path: Path) -> None:
    found = only(found, "MiniGPT", "decode_step", "empty_cache")
    session = open_session(Run(tmp_path / "run"), course, found, log=quiet, quiet=True)
    sampling = Sampling(temperature=0.0, max_tokens=3 * course.context)
    tokens = list(session.tokens(session.functions.init(), list(range(course.context + 4)), sampling))
    assert len(tokens) == 3 * course.context or session.prepared.end_of_text not in tokens


def test_their_tokens_and_windows_are_trained_on(found: Pieces, course: Config, tmp_path: Path) -> None:
    own = open_session(Run(tmp_path / "own"), course, None, log=quiet, quiet=True)
    theirs = open_session(Run(tmp_path / "theirs"), course, found, log=quiet, quiet=True)
    assert theirs.prepared.folder != own.prepared.folder
    np.testing.assert_array_equal(theirs.prepared.train[0:500], own.prepared.train[0:500])
    rows: Any = theirs.rows
    assert len(rows) == len(own.rows)  # stories here are shorter than a window
    np.testing.assert_array_equal(rows[:9], [own.rows[index] for index in range(9)])
    stream = open_session(Run(tmp_path / "stream"), replace(course, packing="packed"), found, log=quiet, quiet=True)
    joined = np.concatenate(np.asarray(stream.rows))
    np.testing.assert_array_equal(joined[joined >= 0], own.prepared.train[0 : len(own.prepared.train)])


@pytest.mark.parametrize("fsdp", [False, True])
def test_their_rules_say_where_arrays_lie(found: Pieces, course: Config, tmp_path: Path, fsdp: bool) -> None:
    config = replace(course, mesh="2x2", fsdp=fsdp)
    session = open_session(Run(tmp_path / "run"), config, found, log=quiet, quiet=True)
    assert session.put(np.zeros((8, 17), np.int32)).sharding.spec[0] == "data"
    places = {
        ".".join(path_names(path)[-2:]): leaf.sharding.spec
        for path, leaf in jax.tree_util.tree_leaves_with_path(session.functions.abstract_state)
    }
    split = [axis for axis in places["ff1.kernel"] if axis is not None]
    assert split == ["data" if fsdp else "model"]
    state, metrics = session.functions.train_step(session.functions.init(), session.put(np.ones((8, 17), np.int32)))
    assert np.isfinite(float(metrics.loss))
    assert not fsdp or len(state) == 2


def test_checkpoints_that_save_nothing_or_give_back_another_model_are_their_fault(
    found: Pieces, course: Config, tmp_path: Path
) -> None:
    saved, found.by_name["save"] = found.by_name["save"], lambda *arguments: None
    session = open_session(Run(tmp_path / "nothing"), course, found, log=quiet, quiet=True)
    with pytest.raises(PieceError, match="wrote nothing at its path"):
        train(session, log=quiet, quiet=True)

    def other(path: str, make: Any, make_loader: Any) -> Any:
        _, optimizer, rngs = make()
        return nnx.Linear(2, 3, rngs=nnx.Rngs(0)), optimizer, rngs, make_loader()

    found.by_name["save"] = saved
    session = trained(tmp_path / "other", course, found)
    found.by_name["resume"] = other
    with pytest.raises(PieceError, match="other arrays than were saved"):
        load_state(session)


@pytest.mark.parametrize("with_pieces", [False, True])
def test_fine_tuning_begins_at_the_base_and_moves_adapters_only(
    found: Pieces, course: Config, tmp_path: Path, with_pieces: bool
) -> None:
    pieces = found if with_pieces else None
    base = trained(tmp_path / "base", course, pieces)
    _, before = load_state(base)
    tuned = trained(tmp_path / "tuned", replace(course, base="base", lora_rank=2, learning_rate=1e-2), pieces)
    assert losses(tuned)[0] < losses(base)[0] - 0.5
    step, state = load_state(tuned, 6)
    model = tuned.functions.model(state)
    kept = nnx.to_pure_dict(nnx.state(model, nnx.Not(nnx.LoRAParam)))
    assert len(jax.tree.leaves(nnx.state(model, nnx.LoRAParam))) >= 4
    for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(nnx.state(base.functions.model(before))), strict=True):
        np.testing.assert_array_equal(a, b)
    assert step == 6
    if pieces is not None:
        assemble.export_model(tuned.config, pieces, model, tmp_path / "merged")
        assert (tmp_path / "merged" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"base": "base", "d_model": 32}, "does not fit"), ({"base": "nobody"}, "There is no run 'nobody'")],
)
def test_a_base_that_does_not_fit_is_said(course: Config, tmp_path: Path, changes: dict, sentence: str) -> None:
    trained(tmp_path / "base", course, None)
    session = open_session(Run(tmp_path / "tuned"), replace(course, **changes), None, log=quiet, quiet=True)
    with pytest.raises(UsageError, match=sentence):
        train(session, log=quiet, quiet=True)
    assert not session.run.config_file.exists()


def test_adapters_need_a_base() -> None:
    with pytest.raises(UsageError, match="name its run"):
        replace(TINY, lora_rank=4)
