"""The miniGPT of the JAX tutorial, rewritten from its description: a Python loop over post-LN blocks, Adam, and a loss
over all logits at once."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

XAVIER = nnx.initializers.xavier_uniform()


class TransformerBlock(nnx.Module):
    """Attention and feed-forward layers, with LayerNorm after each sum."""

    def __init__(self, width: int, heads: int, inner: int, rngs: nnx.Rngs):
        self.attention = nnx.MultiHeadAttention(heads, in_features=width, kernel_init=XAVIER, rngs=rngs)
        self.dropout1 = nnx.Dropout(0.1, rngs=rngs)
        self.norm1 = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs)
        self.linear1 = nnx.Linear(width, inner, kernel_init=XAVIER, rngs=rngs)
        self.linear2 = nnx.Linear(inner, width, kernel_init=XAVIER, rngs=rngs)
        self.dropout2 = nnx.Dropout(0.1, rngs=rngs)
        self.norm2 = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs)

    def __call__(self, x, training: bool = False):
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        attended = self.attention(inputs_q=x, mask=mask, decode=False)
        x = self.norm1(x + self.dropout1(attended, deterministic=not training))
        fed = self.linear2(nnx.relu(self.linear1(x)))
        return self.norm2(x + self.dropout2(fed, deterministic=not training))


class TutorialGPT(nnx.Module):
    """Token and position embeddings, the blocks, and an untied head with a bias."""

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, inner: int, layers: int, rngs: nnx.Rngs):
        self.tokens = nnx.Embed(vocabulary, width, rngs=rngs)
        self.positions = nnx.Embed(context, width, rngs=rngs)
        self.blocks = nnx.List([TransformerBlock(width, heads, inner, rngs) for _ in range(layers)])
        self.head = nnx.Linear(width, vocabulary, kernel_init=XAVIER, rngs=rngs)

    def __call__(self, ids, training: bool = False):
        x = self.tokens(ids) + self.positions(jnp.arange(ids.shape[1])[None, :])
        for block in self.blocks:
            x = block(x, training)
        return self.head(x)


def loss_fn(model, batch):
    """The mean loss over all positions, including padding, and the logits."""
    logits = model(batch[0], training=True)
    return optax.softmax_cross_entropy_with_integer_labels(logits=logits, labels=batch[1]).mean(), logits


@nnx.jit
def train_step(model, optimizer, metrics, batch):
    """One Adam step. The metric accumulates the loss on the device."""
    (loss, _), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model, batch)
    metrics.update(loss=loss)
    optimizer.update(model, grads)


def batch_of(rows: list[list[int]]):
    """The tutorial's batch: a transposed list of columns. The targets are the inputs shifted left, with a 0 at the
    end."""
    inputs = np.array([list(column) for column in zip(*rows, strict=True)]).T
    targets = np.concatenate([inputs[:, 1:], np.zeros((len(rows), 1), inputs.dtype)], axis=1)
    return jnp.asarray(inputs, jnp.int32), jnp.asarray(targets, jnp.int32)


class Tutorial:
    """The program on rows of ids: `step(rows)` dispatches a step, `wait()` returns the loss."""

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, inner: int, layers: int):
        self.model = TutorialGPT(vocabulary, context, width, heads, inner, layers, nnx.Rngs(0))
        self.optimizer = nnx.Optimizer(self.model, optax.adam(1e-3), wrt=nnx.Param)
        self.metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))

    def step(self, rows: list[list[int]]) -> None:
        train_step(self.model, self.optimizer, self.metrics, batch_of(rows))

    def wait(self) -> float:
        loss = float(self.metrics.compute()["loss"])
        jax.block_until_ready(nnx.state(self.model))
        return loss
