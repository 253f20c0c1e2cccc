"""Experts: each token gets what its experts give, whatever is chosen, and a bias balances their load."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from harness.model.experts import Experts, in_tiles, route
from harness.training.optimizer import make_optimizer
from harness.training.train_step import mean_gradients
from tests.harness.conftest import TINY
from tests.harness.model.test_gpt import filled as model_filled

CONFIG = replace(
    TINY, d_model=6, d_ff=5, num_heads=2, activation="swiglu", bias=True, experts=4, experts_per_token=2, d_shared=3,
    shared_gate=True,
)  # fmt: skip


def filled(config: Any) -> Experts:
    module = Experts(config.model, nnx.Rngs(0))
    rng = np.random.default_rng(0)
    numbers = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.5, leaf.shape), leaf.dtype), nnx.state(module))
    nnx.update(module, numbers)
    return module


def one_by_one(module: Experts, x_ND: np.ndarray) -> np.ndarray:
    """The same, a token and an expert at a time."""
    config, out = module.config, []
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    for x_D in x_ND:
        scores_E = x_D @ module.router.kernel[...] + (0 if module.router.bias is None else module.router.bias[...])
        bias_E = 0 if module.choice_bias is None else module.choice_bias[...]
        shares_E = sigmoid(scores_E) if config.router == "sigmoid" else np.exp(scores_E) / np.exp(scores_E).sum()
        chosen = np.argsort(-(shares_E + bias_E))[: config.experts_per_token]
        total = 1 if config.router == "softmax_all" else shares_E[chosen].sum()
        row_D = np.zeros_like(x_D)
        for e in chosen:
            both_2F = np.einsum("d,dpf->pf", x_D, module.gate_up.kernel[e])
            both_2F += 0 if module.gate_up.bias is None else module.gate_up.bias[e]
            hidden_F = both_2F[0] * sigmoid(both_2F[0]) * both_2F[1]
            down_D = hidden_F @ module.down.kernel[e] + (0 if module.down.bias is None else module.down.bias[e])
            row_D = row_D + shares_E[e] / total * down_D
        if config.d_shared:
            rows_1D = jnp.asarray(x_D[None])
            gate_F, up_F = module.shared_gate_up(rows_1D)[0]
            shared_D = module.shared_down((gate_F * sigmoid(gate_F) * up_F)[None])[0]
            row_D = row_D + (sigmoid(module.shared_gate(rows_1D)[0]) if module.shared_gate else 1) * shared_D
        out.append(row_D)
    return np.stack(out)


@pytest.mark.parametrize("tokens", [1, 23])
@pytest.mark.parametrize(
    "changes",
    [{}, {"router": "softmax", "d_shared": 0, "shared_gate": False}, {"router": "softmax_all", "bias": False}],
)
def test_each_token_gets_what_its_experts_give(changes: dict[str, Any], tokens: int) -> None:
    module = filled(replace(CONFIG, **changes))
    x_ND = np.random.default_rng(1).normal(size=(tokens, 6)).astype(np.float32)
    np.testing.assert_allclose(nnx.jit(lambda module, x: module(x))(module, x_ND), one_by_one(module, x_ND), atol=2e-5)


@pytest.mark.parametrize("choices", [[0] * 64, [3] * 33 + [1], [*range(8)] * 8, [5], [2, 0, 7]])
def test_tiles_have_one_expert_each_and_few_empty_rows(choices: list[int]) -> None:
    place_M, expert_J, R = in_tiles(jnp.array(choices), 8)
    assert len(set(place_M.tolist())) == len(choices)
    assert [int(expert_J[place // R]) for place in place_M] == choices
    assert len(expert_J) * R <= 2 * len(choices) or len(choices) < 8


def test_a_bias_chooses_and_weighs_nothing() -> None:
    logits_NE = jnp.array([[0.0, 1.0, 2.0]])
    experts_Nk, weights_Nk = route(logits_NE, jnp.array([9.0, 0.0, 0.0]), 2, "sigmoid")
    shares = 1 / (1 + np.exp(-np.array([0.0, 2.0])))
    assert experts_Nk.tolist() == [[0, 2]]
    np.testing.assert_allclose(weights_Nk[0], shares / shares.sum(), rtol=1e-6)


@pytest.mark.parametrize("microbatches", [1, 2])
def test_an_update_moves_the_bias_against_the_load_and_nothing_else_feels_it(microbatches: int) -> None:
    config = replace(CONFIG, shared_gate=False, num_layers=2, vocab_size=11, clip_norm=1e-3, router_bias_rate=0.25)
    model: Any = model_filled(config)
    before_LE = model.blocks.feed_forward_override.choice_bias[...]
    ids_BT = jax.random.randint(jax.random.key(0), (4, 7), 0, 11)

    def loss_sum(model: Any, ids_BT: Any, key: Any) -> tuple[Any, Any]:
        del key
        return optax.softmax_cross_entropy_with_integer_labels(model(ids_BT), ids_BT).sum(), jnp.int32(ids_BT.size)

    @nnx.jit
    def update(model: Any, optimizer: Any) -> Any:
        _, gradients, norm = mean_gradients(loss_sum, model, ids_BT, None, microbatches)
        optimizer.update(model, gradients)
        rest = jax.tree.map(lambda g: jnp.where(jnp.abs(g) < 1e-11, 0, g), gradients)
        return gradients["blocks"]["feed_forward_override"]["choice_bias"][...], norm, optax.tree.norm(rest)

    counts_LE, norm, rest = update(model, nnx.Optimizer(model, make_optimizer(config), wrt=nnx.Param))
    np.testing.assert_allclose(counts_LE.sum(axis=1), 1e-12 * 2, rtol=1e-5)  # two choices of each token, and a mean
    np.testing.assert_allclose(norm, rest, rtol=1e-5)
    moved_LE = model.blocks.feed_forward_override.choice_bias[...] - before_LE
    np.testing.assert_allclose(moved_LE, 0.25 * np.sign(0.5e-12 - counts_LE), rtol=1e-5)


def test_the_load_becomes_even() -> None:
    """Rows that all prefer one expert are spread by the bias alone."""
    rng, bias_E = np.random.default_rng(0), jnp.zeros(8)
    rows_NE = jnp.asarray(rng.normal(0, 1, (400, 8)) + np.linspace(0, 3, 8), jnp.float32)
    config = replace(CONFIG, experts=8, router_bias_rate=0.01, learning_rate=0.0)
    transformation = make_optimizer(config)

    @jax.jit
    def step(bias_E: Any, state: Any) -> Any:
        counts = jax.grad(lambda bias: route(rows_NE, bias, 2, "sigmoid")[1].sum())(bias_E)
        updates, state = transformation.update({"choice_bias": counts}, state, {"choice_bias": bias_E})
        return bias_E + updates["choice_bias"], state, counts

    state = transformation.init({"choice_bias": bias_E})
    loads = []
    for _ in range(150):
        bias_E, state, counts_E = step(bias_E, state)
        loads.append(float(counts_E.max() / counts_E.mean()))
    assert loads[0] > 2
    assert np.mean(loads[-10:]) < 1.2
