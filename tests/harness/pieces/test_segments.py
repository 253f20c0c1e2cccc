"""The pieces of problems 53 and 54: rows with several stories train like the harness's own, and prompts have the same
ids."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from harness.config import Config
from harness.data.batches import UNLEARNED, SegmentRows, Windows
from harness.data.token_files import CONTEXT, Tokens
from harness.data.tokenizer import get_tokenizer
from harness.errors import PieceError
from harness.model.sampling import Sampling
from harness.pieces.assemble import encode_text, pack_segments, recipe_from
from harness.pieces.load import Pieces, check_pieces
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from harness.run.state import load_state
from harness.training.sharding import make_mesh, put_batch
from harness.training.train_step import make_step_functions
from tests.harness.conftest import TINY

# Rotary positions, so that a model whose context has one more position has the same parameters.
CONFIG = replace(TINY, vocab_size=61, packing="segments", positions="rope", num_layers=1)
# A model that the piece `rope` is for; the models of pieces are initialized so.
LLAMAS = replace(CONFIG, norm_kind="rmsnorm", activation="swiglu", init="xavier")
PARTS = ("segment_positions", "segment_targets", "segment_attention")


def tokens() -> Tokens:
    """Stories of which one is longer than a row; some tokens are only read."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(rng.integers(2, 12, 40))
    ids = rng.integers(0, 61, ends[-1] + 30).astype(np.uint32)
    read = np.where(rng.random(len(ids)) < 0.2, CONTEXT, 0).astype(np.uint32)
    return Tokens((ids | read,), np.append(ends, ends[-1] + 30))


def rows() -> np.ndarray:
    """The harness's rows of these stories."""
    own = SegmentRows.of(Windows.padded(tokens(), CONFIG.context, 61))
    return np.stack([own[index] for index in range(len(own))])


def three_losses(config: Config, pieces: Pieces | None) -> list[float]:
    mesh = make_mesh(config)
    functions = make_step_functions(config, mesh, pieces and recipe_from(config, mesh, pieces))
    state, losses = functions.init(), []
    batch = put_batch(rows()[:8], mesh)
    for _ in range(3):
        state, metrics = functions.train_step(state, batch)
        losses.append(float(metrics.loss))
    total, count = functions.eval_step(state, batch)
    return [*losses, float(total) / int(count)]


def test_rows_of_pack_stories_are_those_of_the_harness(pieces: Pieces) -> None:
    assert (rows() <= UNLEARNED).any()
    np.testing.assert_array_equal(pack_segments(CONFIG, pieces, tokens()), rows())


@pytest.mark.parametrize(
    "names", [(*PARTS, "next_token_loss"), pytest.param(("segment_mask", "rope"), marks=pytest.mark.thorough)]
)
def test_any_of_them_gives_the_losses_of_the_harness(pieces: Pieces, names: tuple[str, ...]) -> None:
    config = LLAMAS if "rope" in names else CONFIG
    expected = three_losses(config, None)
    called = set()
    for name in names:
        piece = pieces.by_name[name]
        pieces.by_name[name] = lambda *a, name=name, piece=piece: called.add(name) or piece(*a)
    pieces.by_name = {name: pieces.by_name[name] for name in names}
    np.testing.assert_allclose(three_losses(config, pieces), expected, rtol=1e-4)
    assert called == set(names)
    assert expected[-1] < expected[0]


def test_a_run_with_them_resumes_exactly_and_samples(pieces: Pieces, tiny: Config, tmp_path: Path) -> None:
    config = replace(tiny, packing="segments", num_layers=1)
    asked = []
    encode = pieces.by_name["encode"]
    pieces.by_name["encode"] = lambda *arguments: asked.append(arguments[0]) or encode(*arguments)
    names = ("pack_stories", *PARTS, "next_token_loss", "make_loader", "encode")
    pieces.by_name = {name: pieces.by_name[name] for name in names}
    run, lines = Run(tmp_path / "runs" / "a"), []
    for _ in range(2):
        session = open_session(run, config, pieces, log=ignore, quiet=True)
        assert isinstance(session.rows, np.ndarray)
        assert train(session, log=ignore, quiet=True)
        lines.append([(line["loss"], line["validation_loss"]) for line in run.metrics()])
        run.checkpoints.joinpath("6").rename(tmp_path / f"away{len(lines)}")
    assert lines[0] == lines[1]
    step, state = load_state(session)
    assert step == 3
    ids = session.prompt_ids("The cat saw")
    assert asked == ["The cat saw"]
    assert len([*session.tokens(session.functions.model(state), ids, Sampling(temperature=0.0, max_tokens=3))]) <= 3


def test_rows_of_another_width_are_reported(pieces: Pieces) -> None:
    pieces.by_name["pack_stories"] = lambda stories, context, pad_id: (np.zeros((1, 3)), np.zeros((1, 3)))
    with pytest.raises(PieceError, match=r"pack_stories returned arrays of shapes \(1, 3\) and \(1, 3\).*\(R, 17\)"):
        pack_segments(CONFIG, pieces, tokens())


@pytest.mark.parametrize(
    ("name", "piece", "message"),
    [
        ("pack_stories", lambda stories, context, pad_id: (np.zeros(8), np.zeros(8)), r"shapes \[\(8,\), \(8,\)\]"),
        ("segment_positions", lambda segments: jnp.cumsum(segments) * 1.0, "returned float32"),
        ("segment_targets", lambda ids, segments: ids[1:], r"returned int32\[2, 4\]"),
        ("segment_mask", lambda segments: segments, r"returned int32\[2, 5\]"),
        ("segment_attention", lambda q, k, v, segments, block: v[0], r"returned float32\[12\]"),
        ("segment_attention", lambda q, k, v, segments, block: v * jnp.nan, "not finite for float32"),
        ("encode", lambda text, ranks, special: [*text.encode()], "returned .108, 111"),
    ],
)
def test_a_broken_piece_is_reported(name: str, piece: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(PieceError, match=message):
        check_pieces({name: piece}, tmp_path)


def test_prompts_are_encoded_by_the_piece_and_have_the_ids_of_the_tokenizer(pieces: Pieces) -> None:
    tokenizer = get_tokenizer("pocket-2k")
    text = "Once upon a time, naïve <|endoftext|> foxes  ran.\n"
    assert encode_text(pieces, tokenizer, text) == tokenizer.encode_ordinary(text)
    pieces.by_name["encode"] = lambda text, ranks, special: [0]
    with pytest.raises(PieceError, match=r"encode returned the ids \[0\] for 'Once'.*grade problem 53"):
        encode_text(pieces, tokenizer, "Once")
