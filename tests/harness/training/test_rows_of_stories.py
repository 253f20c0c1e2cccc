"""The loss of rows with several stories is that of the same stories in rows of their own."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.data.batches import SegmentRows, Windows
from harness.data.token_files import CONTEXT, Tokens
from harness.training.sharding import make_mesh, put_batch
from harness.training.train_step import default_loss_sum, default_model, make_step_functions, segment_ids, token_ids
from tests.harness.conftest import TINY

PADDED = replace(TINY, vocab_size=97, vocab_multiple=1, packing="padded")
SEGMENTS = replace(PADDED, packing="segments")


def stories() -> Windows:
    """Stories of which one is longer than a row, and some tokens are only read."""
    rng, lengths = np.random.default_rng(0), [5, 9, 3, 17, 2, 30, 4]
    ids = rng.integers(0, 97, sum(lengths)).astype(np.uint32)
    read = np.where(rng.random(len(ids)) < 0.3, CONTEXT, 0).astype(np.uint32)
    return Windows.padded(Tokens((ids | read,), np.cumsum(lengths)), SEGMENTS.context, 97)


def test_rows_are_read_as_they_were_written() -> None:
    padded, rows = stories(), SegmentRows.of(stories())
    table = jnp.asarray(np.stack([rows[index] for index in range(len(rows))]))
    ids, segments = np.asarray(token_ids(table)), np.asarray(segment_ids(table))
    found = [
        ids[row, segments[row] == segment].tolist()
        for row in range(len(rows))
        for segment in range(1, segments[row].max() + 1)
    ]
    plain = [np.asarray(token_ids(jnp.asarray(padded.ids(index))[None]))[0] for index in range(len(padded))]
    assert sorted(found) == sorted(story.tolist() for story in plain)


def test_the_loss_and_its_gradients_are_those_of_one_story_per_row() -> None:
    padded, rows = stories(), SegmentRows.of(stories())
    assert len(rows) < len(padded)
    model = default_model(SEGMENTS, nnx.Rngs(0))
    results = []
    for config, windows in ((PADDED, padded), (SEGMENTS, rows)):
        table = jnp.asarray(np.stack([windows[index] for index in range(len(windows))]))

        def loss(model, config=config, table=table):
            return default_loss_sum(config, None, model, table, None)

        (total, count), slopes = nnx.jit(nnx.value_and_grad(loss, has_aux=True))(model)
        results.append((total, count, slopes))
    (expected, targets, gradients), (total, count, slopes) = results
    assert int(count) == int(targets) > 0
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), slopes, gradients)


def test_a_step_on_a_mesh_has_the_loss_of_one_device() -> None:
    rows, losses = SegmentRows.of(stories()), []
    batch = np.stack([rows[index % len(rows)] for index in range(8)])
    for mesh_shape in ("1x1", "2x2"):
        config = replace(SEGMENTS, mesh=mesh_shape, num_layers=1)
        mesh = make_mesh(config)
        functions = make_step_functions(config, mesh)
        state, first = functions.train_step(functions.init(), put_batch(batch, mesh))
        _, second = functions.train_step(state, put_batch(batch, mesh))
        losses.append([float(first.loss), float(second.loss)])
    np.testing.assert_allclose(*losses, rtol=1e-4)
