"""Small models and data that probes pass to a submission, so that it is graded on its own code alone."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.experimental import io_callback

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, fill_module, fill_state
from grader.worker.subject import to_fill

# Shared by all optimizers, so a step that was compiled for one of them serves the next.
ADAMW = optax.adamw(0.1)
LAYERS = 12  # of a DeepLM
LONG_RUN = 2**25  # steps


class ToyLM(nnx.Module):
    """An embedding, a hidden layer and a head. `temperature` is state that must not be trained.

    `traces` counts how often Python runs the forward pass: once per compilation under jit, once per call without it.
    """

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, rngs: nnx.Rngs, *, drawn: bool = False):
        # Most probes overwrite the values, so drawing random ones would only waste time.
        init = nnx.initializers.normal(0.1) if drawn else nnx.initializers.zeros_init()
        self.embed = nnx.Embed(vocab_size, d_model, embedding_init=init, rngs=rngs)
        self.ff = nnx.Linear(d_model, d_ff, kernel_init=init, rngs=rngs)
        self.head = nnx.Linear(d_ff, vocab_size, kernel_init=init, rngs=rngs)
        self.temperature = nnx.Variable(jnp.asarray(2.0))
        self.traces = Counter()

    def __call__(self, token_ids: jax.Array) -> jax.Array:
        """Maps token ids (T,) to logits (T, V)."""
        self.traces.count += 1
        return self.head(nnx.relu(self.ff(self.embed(token_ids)))) / self.temperature[...]


class DeepLM(ToyLM):
    """A ToyLM with a running mean for each of twelve layers, not trained. As text, layer 10 comes before layer 2."""

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, rngs: nnx.Rngs, *, drawn: bool = False):
        super().__init__(vocab_size, d_model, d_ff, rngs, drawn=drawn)
        self.means = nnx.List([nnx.BatchStat(jnp.zeros(1)) for _ in range(LAYERS)])

    def __call__(self, token_ids: jax.Array) -> jax.Array:
        """Maps token ids (T,) to logits (T, V)."""
        logits = super().__call__(token_ids)
        for mean in self.means:
            logits += mean[...] * nnx.tanh(logits)  # in this order: another gives other logits
        return logits


class Counter:
    """A count that jit does not see. All counters are equal, so a change of the count never causes a compilation."""

    def __init__(self) -> None:
        self.count = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter)

    def __hash__(self) -> int:
        return 0


def never_real(make: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a `make` that gives shapes only: it raises BadOutputError where it would create arrays, also inside a
    compiled program."""
    sentence = "`make` ran for real, so there was a second model in memory"

    def refuse() -> None:
        raise BadOutputError(sentence)

    def abstract() -> Any:
        model, optimizer = make()
        if not isinstance(model.temperature[...], jax.core.Tracer):
            raise BadOutputError(sentence)
        # Called only if a program that creates any part of them is run. An effect is not dead code.
        io_callback(refuse, None)
        return model, optimizer

    return abstract


def model_factory(
    vocab_size: int, d_model: int, d_ff: int, *, drawn: bool = False, model_type: type[ToyLM] = ToyLM
) -> Callable[[], tuple[ToyLM, nnx.Optimizer[ToyLM]]]:
    """Returns a function that creates a model and an AdamW optimizer for it. The parameters are zero unless they are
    `drawn`."""

    def make() -> tuple[ToyLM, nnx.Optimizer[ToyLM]]:
        model = model_type(vocab_size, d_model, d_ff, rngs=nnx.Rngs(0), drawn=drawn)
        return model, nnx.Optimizer(model, ADAMW, wrt=nnx.Param)

    return make


def mid_training(
    make: Callable[[], tuple[ToyLM, nnx.Optimizer[ToyLM]]], numbers: Any
) -> tuple[ToyLM, nnx.Optimizer[ToyLM]]:
    """Returns a model and an optimizer as late in a long run: no leaf has its initial value, and no count fits in 16
    bits or a float32.

    Each of the `numbers`, normal ones, is used once at most. Raises ValueError if they are too few.
    """
    model, optimizer = make()
    used = 0

    def new(old: jax.Array) -> Any:
        nonlocal used
        taken = np.asarray(numbers[used : used + old.size]).reshape(old.shape)
        used += old.size
        return taken

    def parameter(old: jax.Array) -> Any:  # as large as those that are filled by name
        return new(old) / np.sqrt(old.shape[-2]) if old.ndim > 1 else 1 + new(old) / 2

    nnx.update(model, jax.tree.map(lambda old: jnp.asarray(parameter(old), old.dtype), nnx.state(model)))
    model.temperature[...] = abs(model.temperature[...]) + 1
    # Counts are drawn, too: a constant must not restore them. They are odd: a float32 has only the even numbers of this
    # size.
    state = jax.tree.map(
        lambda old: abs(new(old)) if old.ndim else old + LONG_RUN + (int(LONG_RUN * abs(new(old))) | 1),
        nnx.state(optimizer),
    )
    nnx.update(optimizer, jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), state, nnx.state(optimizer)))
    return model, optimizer


class ToyGPT(nnx.Module):
    """The parameters of problem 06's MiniGPT, under the same names. `gpt_logits` is its forward pass."""

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, d_ff: int, num_layers: int, context: int):
        def linear(i: int, o: int) -> nnx.Module:
            return nnx.Linear(i, o, kernel_init=zeros, rngs=rngs)

        rngs, zeros = nnx.Rngs(0), nnx.initializers.zeros_init()
        self.embed = nnx.Embed(vocab_size, d_model, embedding_init=zeros, rngs=rngs)
        self.pos_embed = nnx.Param(jnp.zeros((context, d_model)))
        blocks: list[Any] = [nnx.Module() for _ in range(num_layers)]
        self.blocks = nnx.List(blocks)
        for block in blocks:
            block.ln1, block.ln2 = nnx.LayerNorm(d_model, rngs=rngs), nnx.LayerNorm(d_model, rngs=rngs)
            block.attn = nnx.Module()
            block.attn.num_heads = num_heads
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                setattr(block.attn, name, linear(d_model, d_model))
            block.ff1, block.ff2 = linear(d_model, d_ff), linear(d_ff, d_model)
        self.ln_f = nnx.LayerNorm(d_model, rngs=rngs)

    @classmethod
    def abstract(cls, case: Case) -> tuple[Any, Any]:
        """Returns the graph of a model with the sizes in a case, and its parameters, to be filled."""
        graphdef, state = nnx.split(nnx.eval_shape(lambda: cls._sized(case)))
        return graphdef, fill_state(state, to_fill)

    @classmethod
    def of(cls, case: Case) -> "ToyGPT":
        """Returns a model with the sizes in a case and filled parameters."""
        model = cls._sized(case)
        fill_module(model, case.seed)
        return model

    @classmethod
    def _sized(cls, case: Case) -> "ToyGPT":
        sizes = ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers", "context")
        return cls(*(int(case.values[name]) for name in sizes))


def gpt_logits(model: Any, token_ids: jax.Array) -> jax.Array:
    """Returns the logits (T, V) of a ToyGPT, or of a model with the same parameter names, on token ids (T,)."""
    x = model.embed(token_ids) + model.pos_embed[: len(token_ids)]
    for block in model.blocks:
        attn, normed = block.attn, block.ln1(x)
        q, k, v = (
            layer(normed).reshape(len(x), attn.num_heads, -1) for layer in (attn.q_proj, attn.k_proj, attn.v_proj)
        )
        x += attn.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))
        x += block.ff2(nnx.relu(block.ff1(block.ln2(x))))
    logits: jax.Array = model.ln_f(x) @ model.embed.embedding[...].T
    return logits


class Stories:
    """An endless stream of batches with a position that can be saved and restored, like a data pipeline."""

    def __init__(self, rows: np.ndarray[Any, Any], batch_size: int):
        self.rows, self.batch_size, self.epoch, self.step = rows, batch_size, 0, 0

    def __next__(self) -> np.ndarray[Any, Any]:
        order = np.random.default_rng(self.epoch).permutation(len(self.rows))
        batch: np.ndarray[Any, Any] = self.rows[order[self.step * self.batch_size :][: self.batch_size]]
        self.step += 1
        if (self.step + 1) * self.batch_size > len(self.rows):
            self.epoch, self.step = self.epoch + 1, 0
        return batch

    def get_state(self) -> dict[str, int]:
        """Returns the position in the stream."""
        return {"epoch": self.epoch, "step": self.step}

    def set_state(self, state: dict[str, int]) -> None:
        """Moves to a position."""
        self.epoch, self.step = int(state["epoch"]), int(state["step"])


def sum_of_losses(V: int, D: int, F: int) -> tuple[dict[str, tuple[int, ...]], Any]:
    """Returns the shapes of the parameters of a model of pairs of tokens, and its function `loss_sum(parameters,
    token_ids)`.

    That returns the sum of the losses over the targets that are not the padding, V - 1, and their number.
    """

    def loss_sum(parameters: Any, token_ids: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = jax.nn.relu(parameters["embed"][token_ids] @ parameters["ff1"] + parameters["bias"])
        losses = optax.softmax_cross_entropy_with_integer_labels((x @ parameters["head"])[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != V - 1
        return jnp.sum(losses * real), jnp.sum(real)

    return {"embed": (V, D), "ff1": (D, F), "bias": (F,), "head": (F, V)}, loss_sum
