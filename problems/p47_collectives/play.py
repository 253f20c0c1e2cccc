"""Problem 47, played: a layer of the trained model over eight devices, by the learner's collectives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import mesh_of
from grader.exhibits import Bar, Bars, Exhibits, LearnerModule
from problems.stage import devices
from problems.stage.model import into_attention
from problems.stage.weights import POCKET, encode, held_out

P = PartitionSpec
STORY = "Lily had a red ball. Tom wanted the ball. He took it and ran to the park. Lily was sad."
T, LAYER, ROWS = 24, 1, 8
SPLIT = (P(None, "model"), P("model"), P("model", None), P())  # w1, b1, w2, b2


def play(module: LearnerModule) -> Exhibits:
    """Where the layer lies, what each function sends, and how far each result is from that of one device."""
    mesh = mesh_of(8, axes=("model",))
    layer = POCKET.below(f"blocks.{LAYER}.")
    names = ("ff1.kernel", "ff1.bias", "ff2.kernel", "ff2.bias")
    plain = [jnp.asarray(layer[name]) for name in names]
    arrays = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(plain, SPLIT, strict=True)]
    yield devices.placed(
        "The feed-forward layer of the trained model, on eight devices",
        tuple(zip(("w1", "b1", "w2", "b2"), arrays, strict=True)),
        "A device has an eighth of the hidden layer: some columns of w1 and the same rows of w2. So it can compute "
        "from x to its part of the output without asking anybody.",
    )
    x_TD = into_attention(encode(STORY)[:T], LAYER)
    right_TD = jax.nn.relu(x_TD @ plain[0] + plain[1]) @ plain[2] + plain[3]
    apart = []
    for name, spec, said in (
        ("tensor_parallel_mlp", P(), "Every device has all of x and gets all of the sum."),
        ("sequence_parallel_mlp", P("model", None), "Each device has an eighth of the tokens, before and after, so the "
         "norms around the layer are shared, too. A gather and a sum of parts send together what the sum above sends."),
    ):  # fmt: skip

        def run(*arrays: jax.Array, name: str = name) -> Any:
            return getattr(module, name)(*arrays, mesh)

        placed = (jax.device_put(x_TD, NamedSharding(mesh, spec)), *arrays)
        program = jax.jit(run).lower(*placed).compile()
        yield devices.sent(f"What the devices send in your `{name}`", program, said)
        apart.append(Bar(name, float(jnp.abs(program(*placed) - right_TD).max())))

    def loss_sum(parameters: Any, ids_BT: jax.Array) -> tuple[jax.Array, Any]:
        logits_BTV = parameters["table"][ids_BT[:, :-1]] @ parameters["head"]
        return jnp.sum(optax.softmax_cross_entropy_with_integer_labels(logits_BTV, ids_BT[:, 1:])), jnp.size(
            ids_BT[:, 1:]
        )

    data = mesh_of(8, axes=("data",))
    table = jnp.asarray(POCKET.arrays["embed.embedding"])
    parameters = {"table": table, "head": table.T}
    ids_BT = np.stack([row[:32] for row in held_out(ROWS)])
    placed = (
        jax.device_put(parameters, NamedSharding(data, P())),
        jax.device_put(ids_BT, NamedSharding(data, P("data", None))),
    )
    program = jax.jit(lambda *given: module.data_parallel_gradient(loss_sum, *given, data)).lower(*placed).compile()
    yield devices.sent(
        "What the devices send in your `data_parallel_gradient`",
        program,
        "Every device has a story of its own and the whole model. What they exchange is the size of the model, however "
        "long the stories are.",
    )
    _, gradients = program(*placed)

    def mean_loss(parameters: Any) -> jax.Array:
        total, count = loss_sum(parameters, jnp.asarray(ids_BT))
        return total / count

    right = jax.grad(mean_loss)(parameters)
    apart.append(Bar("data_parallel_gradient", max(float(jnp.abs(gradients[key] - right[key]).max()) for key in right)))
    yield Bars(
        "The largest difference from one device that does it all",
        tuple(apart),
        "of the numbers",
        "Rounding, if all is right.",
    )
