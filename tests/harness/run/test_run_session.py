"""Runs with pieces: data, shardings, checkpoints, sampling, fine-tuning and export."""

import contextlib
import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.data.train_tokenizer import file_lines
from harness.errors import HarnessError, PieceError, UsageError
from harness.model.sampling import Sampling
from harness.pieces import assemble
from harness.pieces.load import Pieces, load_pieces
from harness.run.batch_source import open_feed
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import load_state
from harness.training.checkpoint import is_good
from harness.training.sharding import path_names
from harness.training.train_step import StepMetrics
from tests.conftest import ROOT
from tests.harness.conftest import STORIES, TINY

GREEDY = Sampling(temperature=0.0, max_tokens=12)
LORA: Any = {"base": "base", "lora_rank": 2, "lora_targets": "attn,mlp,embed"}


def only(pieces: Pieces, *names: str) -> Pieces:
    """The same workspace with these pieces alone."""
    return replace(pieces, by_name={name: pieces.by_name[name] for name in names})


@pytest.fixture
def course(tiny: Config) -> Config:
    """Six steps of a model like that of the course."""
    return replace(tiny, packing="padded", activation="relu", num_layers=1, seed=3)


def trained(folder: Path, config: Config, pieces: Pieces | None) -> Session:
    """A finished run."""
    session = open_session(Run(folder), config, pieces, log=ignore, quiet=True)
    assert train(session, log=ignore, quiet=True)
    return session


def resumed_from_step_3(session: Session) -> Session:
    """A copy of a finished run, as if it had been killed after step 4, and trained to the end again."""
    run = Run(session.run.folder.parent / "killed")
    shutil.copytree(session.run.folder, run.folder)
    shutil.rmtree(run.checkpoints / "6")
    run.truncate_metrics(4)
    return trained(run.folder, session.config, session.pieces)


def losses(session: Session) -> list[float]:
    return [entry["loss"] for entry in session.run.metrics()]


@pytest.mark.thorough
def test_a_run_with_all_pieces_resumes_exactly_and_is_exported(pieces: Pieces, course: Config, tmp_path: Path) -> None:
    session = trained(tmp_path / "runs" / "whole", course, pieces)
    assert [*session.checkpointer().losses()] == [3, 6]

    assert losses(resumed_from_step_3(session)) == losses(session)

    step, state = load_state(session)
    tokens = list(session.tokens(session.functions.model(state), [5, 6, 7], GREEDY))
    window = only(pieces, "MiniGPT")
    assert tokens == list(replace(session, pieces=window).tokens(session.functions.model(state), [5, 6, 7], GREEDY))
    loop = only(pieces, "MiniGPT", "generate", "sampling_distribution")
    assert tokens == list(replace(session, pieces=loop).tokens(session.functions.model(state), [5, 6, 7], GREEDY))
    assemble.export_model(session.config, pieces, session.functions.model(state), tmp_path / "exported")
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["n_embd"] == course.d_model
    assert step in (3, 6)


@pytest.mark.thorough
def test_a_piece_with_dropout_trains_and_resumes(course: Config, tmp_path: Path, workspace: Path) -> None:
    for file in workspace.glob("p*.py"):
        file.unlink()
    shutil.copyfile(ROOT / "solutions" / "frames" / "p05_with_dropout.py", workspace / "p05_gpt_block.py")
    pieces = load_pieces(workspace)
    assert list(pieces.by_name) == ["GPTBlock"]
    session = trained(tmp_path / "runs" / "whole", course, pieces)
    assert losses(resumed_from_step_3(session)) == losses(session)
    step, state = load_state(session)
    assert len(list(session.tokens(session.functions.model(state), [5, 6, 7], GREEDY))) <= GREEDY.max_tokens
    assert step in (3, 6)


def test_decode_step_continues_when_the_context_is_full(pieces: Pieces, course: Config, tmp_path: Path) -> None:
    decoding = only(pieces, "MiniGPT", "decode_step", "empty_cache")
    session = open_session(Run(tmp_path / "run"), course, decoding, log=ignore, quiet=True)
    sampling = Sampling(temperature=0.0, max_tokens=3 * course.context)
    tokens = list(
        session.tokens(session.functions.model(session.functions.init()), list(range(course.context + 4)), sampling)
    )
    assert len(tokens) == 3 * course.context or session.prepared.end_of_text not in tokens


def test_tokenize_and_pack_replace_the_default_data(pieces: Pieces, course: Config, tmp_path: Path) -> None:
    own = open_session(Run(tmp_path / "own"), course, None, log=ignore, quiet=True)
    with_pieces = open_session(Run(tmp_path / "with_pieces"), course, pieces, log=ignore, quiet=True)
    assert with_pieces.prepared.folder != own.prepared.folder
    np.testing.assert_array_equal(with_pieces.prepared.train[0:500], own.prepared.train[0:500])
    rows: Any = with_pieces.rows
    assert len(rows) == len(own.rows)  # stories here are shorter than a window
    np.testing.assert_array_equal(rows[:9], [own.rows[index] for index in range(9)])
    stream = open_session(Run(tmp_path / "stream"), replace(course, packing="packed"), pieces, log=ignore, quiet=True)
    tokens = np.concatenate(np.asarray(stream.rows))
    np.testing.assert_array_equal(tokens[tokens >= 0], own.prepared.train[0 : len(own.prepared.train)])


class Unhashable(list[Any]):
    """A piece that calls another one, and has no hash."""

    def __call__(self, *args: Any) -> Any:
        return self[0](*args)


def test_sessions_with_the_same_pieces_share_their_functions(pieces: Pieces, course: Config, tmp_path: Path) -> None:
    """Also with a piece that has no hash. Others do not get them, nor do equal pieces that are other objects."""

    def functions(config: Config, *schedules: Any) -> list[Any]:
        used = [replace(pieces, by_name={"warmup_cosine": schedule}) for schedule in schedules]
        return [open_session(Run(tmp_path / "run"), config, each, log=ignore, quiet=True).functions for each in used]

    one, other = ([pieces.by_name["warmup_cosine"]] for _ in range(2))
    first = Unhashable(one)
    same, again, equal = functions(course, first, first, Unhashable(other))
    assert same is again is not equal
    assert functions(replace(course, keep=5, eval_every=1), first) == [same]
    assert functions(replace(course, learning_rate=0.5), first) != [same]


@pytest.mark.thorough
@pytest.mark.parametrize("fsdp", [False, True])
def test_partition_spec_and_fsdp_spec_replace_the_sharding_rule(
    pieces: Pieces, course: Config, tmp_path: Path, fsdp: bool
) -> None:
    config = replace(course, mesh="2x2", fsdp=fsdp)
    session = open_session(Run(tmp_path / "run"), config, pieces, log=ignore, quiet=True)
    rows = open_feed(session).next(None).arrays
    assert rows.sharding.spec[0] == "data"
    specs = {
        ".".join(path_names(path)[-2:]): leaf.sharding.spec
        for path, leaf in jax.tree_util.tree_leaves_with_path(session.functions.abstract_state)
    }
    sharded = [axis for axis in specs["ff1.kernel"] if axis is not None]
    assert sharded == ["data" if fsdp else "model"]
    state, metrics = session.functions.train_step(session.functions.init(), rows)
    assert np.isfinite(float(metrics.loss))
    assert not fsdp or len(state) == 2


@pytest.mark.thorough
def test_broken_save_and_resume_are_piece_errors(pieces: Pieces, course: Config, tmp_path: Path) -> None:
    save, pieces.by_name["save"] = pieces.by_name["save"], lambda *arguments: None
    session = open_session(Run(tmp_path / "nothing"), course, pieces, log=ignore, quiet=True)
    with pytest.raises(PieceError, match="wrote nothing at its path"):
        train(session, log=ignore, quiet=True)

    def resume_other(path: str, make: Any, make_loader: Any) -> Any:
        _, optimizer, rngs = make()
        return nnx.Linear(2, 3, rngs=nnx.Rngs(0)), optimizer, rngs, make_loader()

    pieces.by_name["save"] = save
    session = trained(tmp_path / "other", course, pieces)
    pieces.by_name["resume"] = resume_other
    with pytest.raises(PieceError, match="other shapes or dtypes than were saved"):
        load_state(session)


@pytest.mark.thorough
@pytest.mark.parametrize("with_pieces", [True, False])
def test_fine_tuning_starts_from_the_base_and_trains_only_adapters(
    pieces: Pieces, course: Config, tmp_path: Path, with_pieces: bool
) -> None:
    used = pieces if with_pieces else None
    base = trained(tmp_path / "base", course, used)
    _, before = load_state(base)
    tuned = trained(tmp_path / "tuned", replace(course, **LORA, learning_rate=1e-2), used)
    assert losses(tuned)[0] < losses(base)[0] - 0.5
    step, state = load_state(tuned, 6)
    model = tuned.functions.model(state)
    kept = nnx.to_pure_dict(nnx.state(model, nnx.Not(nnx.LoRAParam)))
    assert len(jax.tree.leaves(nnx.state(model, nnx.LoRAParam))) >= 4
    for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(nnx.state(base.functions.model(before))), strict=True):
        np.testing.assert_array_equal(a, b)
    assert step == 6
    if used is not None:
        assemble.export_model(tuned.config, used, model, tmp_path / "merged")
        assert (tmp_path / "merged" / "model.safetensors").exists()


@pytest.mark.thorough
def test_a_base_that_does_not_fit_is_a_usage_error(course: Config, tmp_path: Path) -> None:
    trained(tmp_path / "base", course, None)
    for changes, message in (
        ({"base": "base", "d_model": 32}, "does not fit"),
        ({"base": "nobody"}, "There is no run 'nobody'"),
    ):
        session = open_session(Run(tmp_path / "tuned"), replace(course, **changes), None, log=ignore, quiet=True)
        with pytest.raises(UsageError, match=message):
            train(session, log=ignore, quiet=True)
        assert not session.run.config_file.exists()


@pytest.mark.thorough
def test_adapters_are_sharded_like_the_layers_they_change(course: Config, tmp_path: Path) -> None:
    trained(tmp_path / "base", course, None)
    config, messages = replace(course, base="base", lora_rank=2), list[str]()
    sessions = [
        open_session(Run(tmp_path / mesh), replace(config, mesh=mesh), None, log=ignore, quiet=True)
        for mesh in ("1x1", "2x2")
    ]
    for session in sessions:
        assert train(session, log=messages.append, quiet=True)
    np.testing.assert_allclose(losses(sessions[1]), losses(sessions[0]), rtol=1e-4)  # sums in another order
    assert messages[0].split(": ")[1].startswith("352 of 35,368 parameters trained, ")
    shapes = {
        ".".join(path_names(path)[-4:]): leaf.sharding.spec
        for path, leaf in jax.tree_util.tree_leaves_with_path(sessions[1].functions.abstract_state)
    }
    assert "model" in shapes["attn.qkv.base.kernel"]


def test_adapters_need_a_base() -> None:
    with pytest.raises(UsageError, match="name its run with base=RUN"):
        replace(TINY, lora_rank=4)


def test_a_run_that_ends_in_nan_fails_and_goes_back(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last good checkpoint is kept, named, and where the next execution begins."""
    config, run = replace(tiny, steps=6, eval_every=1), Run(tmp_path / "runs" / "nan")
    losses = iter([3.0, 2.0, *[float("nan")] * 4])
    messages: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Session, "measure", lambda self, state: (next(losses), {}))
        with pytest.raises(
            HarnessError, match=r"The loss of step 6 is nan\. The last good checkpoint is that of step 2"
        ):
            train(open_session(run, config, None, log=ignore, quiet=True), log=messages.append, quiet=True)
    for line in run.metrics_file.read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert train(open_session(run, config, None, log=ignore, quiet=True), log=messages.append, quiet=True)
    assert any("going back to the checkpoint of step 2" in message for message in messages)
    assert [entry["step"] for entry in run.metrics()] == [1, 2, 3, 4, 5, 6]
    assert all(entry["validation_loss"] for entry in run.metrics())


@pytest.mark.parametrize("skipped", [True, False])
def test_a_checkpoint_is_bad_if_its_loss_is_not_finite_and_its_update_was_not_skipped(
    tiny: Config, tmp_path: Path, skipped: bool
) -> None:
    """A skipped update leaves the state as it was."""
    config = replace(tiny, num_layers=1, steps=3, eval_every=3, checkpoint_every=1, keep=3)
    session = open_session(Run(tmp_path / "runs" / "r"), config, None, log=ignore, quiet=True)
    numbers = itertools.count(1)

    def train_step(state: Any, batch: Any) -> tuple[Any, StepMetrics]:
        state, metrics = session.functions.train_step(state, batch)
        number = next(numbers)
        loss = jnp.float32(jnp.nan) if number == 2 else metrics.loss
        return state, metrics._replace(loss=loss, skipped=jnp.int32(skipped and number >= 2))

    broken = replace(session, functions=replace(session.functions, train_step=train_step))
    assert train(broken, log=ignore, quiet=True)
    losses = session.checkpointer(read_only=True).losses()
    assert [is_good(losses[step]) for step in (1, 2, 3)] == [True, skipped, True]


def test_the_first_loss_that_is_not_finite_is_said_at_once(tiny: Config, tmp_path: Path) -> None:
    config, messages = replace(tiny, learning_rate=1e30, warmup_steps=1, steps=4, eval_every=4), list[str]()
    session = open_session(Run(tmp_path / "runs" / "hot"), config, None, log=ignore, quiet=True)
    with contextlib.suppress(HarnessError):
        train(session, log=messages.append, quiet=True)
    assert sum("the first one that is not finite" in message for message in messages) == 1


@pytest.mark.thorough
def test_a_run_keeps_the_file_of_its_tokenizer(tiny: Config, tmp_path: Path) -> None:
    file = tmp_path / "own.tiktoken"
    file.write_text("".join(file_lines([STORIES], 300)))
    config = replace(tiny, tokenizer=str(file), vocab_size=0, steps=3)
    session = trained(tmp_path / "runs" / "r", config, None)
    assert session.config.vocab_size == 300

    file.write_text("".join(file_lines([STORIES], 290)))
    with pytest.raises(UsageError, match="has changed since the run"):
        _ = open_session(session.run, config, None, log=ignore).prepared
    file.unlink()
    again = open_session(session.run, session.run.config(), None, log=ignore)
    assert again.prepared.key == session.prepared.key
    assert max(again.tokens(again.functions.model(load_state(again)[1]), [5], GREEDY)) < 299
