"""Problem 48, played: the learner's experts learn what a layer of the trained model does, and share its tokens."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Progress, Story, Token
from problems.stage.model import gpt, stream
from problems.stage.weights import POCKET, held_out, token

TRAINS = True
EXPERTS, CHOSEN, LAYER = 4, 2, 1
T, STORIES, STEPS, BALANCE, LEARNING_RATE = 128, 24, 200, 0.02, 3e-3
SIZES = {"d_model": POCKET.d_model, "d_ff": POCKET.d_ff // 2, "num_experts": EXPERTS, "top_k": CHOSEN}


def play(module: LearnerModule) -> Exhibits:
    """Equal experts, then the training of different ones, and which token of a story went to which."""
    ids_NT = np.stack([ids[:T] for ids in held_out(STORIES)])
    x_NTD, y_NTD = layer(ids_NT)
    roomy = module.construct("MixtureOfExperts", **SIZES, capacity=T)()
    same = roomy.w_in[0], roomy.w_out[0]
    for kernel, one in zip((roomy.w_in, roomy.w_out), same, strict=True):
        kernel[...] = jnp.stack([one] * EXPERTS)
    one_TD = jax.nn.relu(x_NTD[0] @ same[0]) @ same[1]
    share = size(roomy(x_NTD[0])[0]) / size(one_TD)
    yield Bars(
        "If all experts are the same, whom a token asks makes no difference",
        (Bar("size of the output", share, 1.0),),
        "of the output of one expert",
        "The weights of a token's experts sum to 1."
        if abs(share - 1) < 1e-2
        else f"The output is {share:.2f} times that of one expert: the weights of a token's experts do not sum to 1.",
        names=("yours", "one expert"),
    )
    moe = module.construct("MixtureOfExperts", **SIZES, capacity=T * CHOSEN * 5 // (4 * EXPERTS))()
    graph, state = nnx.split(moe)
    tx = optax.adam(LEARNING_RATE)

    @jax.jit
    def step(state: Any, moments: Any, x_TD: jax.Array, y_TD: jax.Array) -> Any:
        def loss(state: Any) -> tuple[jax.Array, jax.Array]:
            out_TD, balance = nnx.merge(graph, state)(x_TD)
            error = jnp.mean(jnp.square(out_TD - y_TD)) / jnp.mean(jnp.square(y_TD))
            return error + BALANCE * balance, error

        (_, error), slopes = jax.value_and_grad(loss, has_aux=True)(state)
        updates, moments = tx.update(slopes, moments, state)
        return optax.apply_updates(state, updates), moments, error

    moments, errors = tx.init(state), []
    for number in range(STEPS):
        row = 1 + number % (STORIES - 1)
        state, moments, error = step(state, moments, x_NTD[row], y_NTD[row])
        errors.append(float(error))
        yield Progress(number + 1, STEPS, errors[-1])
    moe = nnx.merge(graph, state)
    yield Lines(
        "Your experts learn to do what one layer of the trained model does",
        (Line("error", np.arange(10, STEPS + 1, 10), np.reshape(errors, (-1, 10)).mean(axis=1)),),
        "1 is the error of an output of zeros.",
        y="share of the layer's output that is missed",
    )
    out_TD, _ = moe(x_NTD[0])
    first_T = np.asarray(moe.router(x_NTD[0])).argmax(axis=1)
    nowhere_T = np.abs(np.asarray(out_TD)).max(axis=1) == 0
    kinds = tuple(f"expert {number + 1}" for number in range(EXPERTS))
    yield Story(
        "Which expert each token of a story goes to first",
        tuple(
            Token(token(each), None, EXPERTS if lost else int(expert))
            for each, expert, lost in zip(ids_NT[0], first_T, nowhere_T, strict=True)
        ),
        "Nobody told the experts what to care for. A token uses two of the four, so the layer has twice the parameters "
        "that it works with.",
        kinds=(*kinds, "no room"),
    )
    counts = np.bincount(first_T, minlength=EXPERTS) / T
    yield Bars(
        "How evenly they share the work",
        tuple(Bar(kind, share) for kind, share in zip(kinds, counts, strict=True)),
        "share of first choices",
        "The balance loss pulls them toward a quarter each."
        if counts.max() < 0.5
        else f"Expert {counts.argmax() + 1} is the first choice of {counts.max():.0%} of the tokens: your balance loss "
        "does not pull them apart.",
    )


def layer(ids_NT: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """What enters and what leaves the feed-forward network of a block, (N, T, D)."""
    x_NTD = jax.vmap(lambda ids: stream(ids, LAYER))(ids_NT)
    graph, state = nnx.split(gpt().blocks)
    block: Any = nnx.merge(graph, jax.tree.map(lambda array: array[LAYER], state))
    x_NTD = x_NTD + block.attn(block.ln1(x_NTD))[0]
    x_NTD = block.ln2(x_NTD)
    hidden_NTF = jax.nn.relu(block.ff1(x_NTD))
    return x_NTD, block.ff2(hidden_NTF)


def size(x_TD: jax.Array) -> float:
    """The root of the mean square."""
    return float(jnp.sqrt(jnp.mean(jnp.square(x_TD))))
