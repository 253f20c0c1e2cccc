"""Models in which some layers have attention and the others a state space."""

import operator
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.model.general import GeneralAttention, Group
from harness.model.state_space import StateSpace
from harness.run.attention_maps import attention_maps
from tests.harness.conftest import Harness
from tests.harness.model.test_gpt import IDS, SMALL, filled

CONFIG = replace(SMALL, num_layers=6, mixer="state_space", attention_every=3, d_state=3, positions="none")


def test_the_last_of_so_many_layers_has_attention() -> None:
    """The model computes what its layers compute one after the other, each with its own parameters."""
    model = filled(CONFIG)
    group = model.blocks
    assert isinstance(group, Group)
    assert [type(block.attn) for block in group.layers] == [StateSpace, StateSpace, GeneralAttention]
    x_BTD = model.embed[IDS]
    for index in range(2):
        for block in group.layers:
            graph, parameters = nnx.split(block)
            x_BTD, _ = nnx.merge(graph, jax.tree.map(operator.itemgetter(index), parameters))(x_BTD)
    np.testing.assert_allclose(model.ln_f(x_BTD), model.hidden(IDS), rtol=1e-5, atol=1e-5)


def test_dropout_differs_in_each_layer() -> None:
    """Without weights, the blocks only add their biases: each element is a number of layers that have not dropped
    it."""
    config = replace(CONFIG, dropout=0.5, activation="relu")
    model = filled(config)
    for path, parameter in nnx.to_flat_state(nnx.state(model.blocks, nnx.Param)):
        is_bias = path[-2:] == ("ff2", "bias")
        parameter[...] = jnp.full_like(parameter[...], 0.5 if is_bias else 0.0)
    model.embed[...] = jnp.zeros_like(model.embed[...])
    model.ln_f = lambda x_BTD: x_BTD
    counts = np.asarray(model.hidden(jnp.zeros((8, 13), int), jax.random.key(0)))
    assert set(np.unique(counts)) == set(range(7))
    assert abs(counts.mean() - 3) < 0.15


@pytest.mark.thorough
def test_the_maps_are_those_of_the_layers_with_attention() -> None:
    maps = attention_maps(filled(replace(CONFIG, num_kv_heads=0)), np.arange(9), CONFIG.num_heads)
    assert [each.shape for each in maps] == [(CONFIG.num_heads, 9, 9)] * 2


@pytest.mark.thorough
def test_the_commands_train_tune_and_sample_it_and_do_not_export_it(stories_file: Path, harness_here: Harness) -> None:
    sizes = "d_model=16 num_heads=2 d_ff=24 num_layers=4 context=16 batch_size=8 eval_batches=2 mesh=1x1".split()
    kind = "mixer=state_space attention_every=2 positions=none optimizer=muon packing=padded".split()
    settings = [part for setting in (*sizes, *kind) for part in ("--set", setting)]
    data = ("--data", stories_file, "--quiet")
    done = harness_here("train", "--run", "two", "--steps", 3, *data, *settings)
    assert done.code == 0, done.err
    tuned = harness_here(
        "finetune", "two", *data, "--lora", 2, "--steps", 2, "--set", "mesh=1x1", "--set", "eval_batches=2"
    )
    assert tuned.code == 0, tuned.err
    texts = [
        harness_here("sample", "two-tuned", "-n", number, "--max-tokens", 4, "--prompt", "The cat") for number in (1, 2)
    ]
    assert [text.code for text in texts] == [0, 0]
    assert texts[1].out.startswith(texts[0].out.rstrip("\n"))  # the first of two is the one
    refused = harness_here("export", "two-tuned", "--to", "out")
    assert refused.code == 2
    assert "mixer=state_space cannot be exported. The nearest layout" in refused.err
