"""The references of the problems on Flax NNX, in both of its modes, and against Flax's own modules."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from flax import nnx

from tests.conftest import ROOT

MODES = [("true", "true"), ("false", "false")]  # the graph mode, and the tree mode

PROGRAMS = {
    "p33_modules_and_params": """
model = StoryScorer(2, 3, 2, rngs=nnx.Rngs(0))
x = jnp.array([10.0, 20.0])

@nnx.jit
def call(model, x):
    model.observe(x)
    return model(x)

call(model, x), call(model, x)
assert jnp.allclose(model.mean[...], jnp.array([1.9, 3.8]))
assert model(x)["topic"].shape == (3,)
""",
    "p34_state_and_filters": """
class Model(nnx.Module):
    def __init__(self, rngs):
        self.head = nnx.Linear(2, 3, rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)

    def __call__(self, x):
        return self.norm(self.head(x))

a, b, x = Model(nnx.Rngs(0)), Model(nnx.Rngs(1)), jnp.arange(8.0).reshape(4, 2)
optimizer = nnx.Optimizer(a, optax.adam(0.1), wrt=nnx.Param)

@nnx.jit
def step(a, optimizer):
    loss, gradients = nnx.value_and_grad(lambda a: jnp.mean((a(x) - x[:, :1]) ** 2))(a)
    optimizer.update(a, gradients)
    return loss

step(a, optimizer)
saved = snapshot(a, optimizer)
losses = [step(a, optimizer) for _ in range(3)]
restore(a, optimizer, saved)
assert losses == [step(a, optimizer) for _ in range(3)]
kernel = average(a, b).head.kernel[...]
assert jnp.allclose(kernel, (a.head.kernel[...] + b.head.kernel[...]) / 2)
copy_part(a, b, "head")
assert (a.head.kernel[...] == b.head.kernel[...]).all()
""",
    "p35_transforms": """
class Model(nnx.Module):
    def __init__(self):
        self.w, self.calls = nnx.Param(jnp.array([1.0, 2.0])), nnx.Variable(jnp.array(0.0))

    def __call__(self, x):
        self.calls[...] += 1
        return x @ self.w[...]

model, models, x = Model(), Model(), jnp.eye(2)
optimizer = nnx.Optimizer(model, optax.sgd(0.5), wrt=nnx.Param)
assert [float(train_step(model, optimizer, x, jnp.zeros(2))) for _ in range(3)] == [2.5, 0.625, 0.15625]
assert jnp.allclose(input_gradient(model, x), model.w[...])
assert model.calls[...] == 4
models.w.set_value(jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
models.calls.set_value(jnp.zeros(3))
assert (member_outputs(models, x) == models.w[...]).all()
assert (models.calls[...] == 1).all()
""",
    "p36_rngs_and_dropout": """
rngs, x = nnx.Rngs(params=0, dropout=1), jnp.ones((20, 30))
model = nnx.Sequential(Dropout(0.5, rngs=rngs), nnx.Linear(30, 30, rngs=rngs), Dropout(0.5, rngs=rngs))
call = nnx.jit(lambda model, x: model(x))
assert (call(model, x) != call(model, x)).any()
assert (predict(model, x) == model.layers[1](x)).all()
assert (model(x) == 0).any()
layers = make_layers(3, 30, nnx.Rngs(0))
assert nnx.vmap(lambda layer, x: layer(x), in_axes=(0, None))(layers, x).shape == (3, 20, 30)
""",
}


@pytest.mark.thorough
@pytest.mark.parametrize(("graph", "updates"), MODES)
def test_the_references_work_in_both_modes_of_nnx(graph: str, updates: str):
    parts = [f"from {name} import *\n{program}" for name, program in PROGRAMS.items()]
    program = "\n".join(["import jax, jax.numpy as jnp\nimport optax\nfrom flax import nnx", *parts])
    modes = {"NNX_GRAPH_MODE": graph, "NNX_GRAPH_UPDATES": updates, "PYTHONPATH": str(ROOT / "solutions")}
    run = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | modes, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_dropout_equals_that_of_flax(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])
    from p36_rngs_and_dropout import Dropout

    x = jax.random.normal(jax.random.key(0), (20, 30))
    ours, oracle = (cls(0.3, rngs=nnx.Rngs(5)) for cls in (Dropout, nnx.Dropout))
    for _ in range(2):
        np.testing.assert_allclose(ours(x), oracle(x), rtol=1e-6)


def test_stacked_layers_are_drawn_like_single_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])
    from p36_rngs_and_dropout import make_layers

    kernels = make_layers(4, 64, nnx.Rngs(0)).kernel[...]
    single = nnx.Linear(64, 64, rngs=nnx.Rngs(1)).kernel[...]
    np.testing.assert_allclose(kernels.std((1, 2)), single.std(), rtol=0.1)
