"""Problem 47, reference: collectives by hand."""

from collections.abc import Callable

import jax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

P = PartitionSpec
COLUMNS_THEN_ROWS = (P(None, "model"), P("model"), P("model", None), P())  # w1, b1, w2, b2


def tensor_parallel_mlp(
    x: Float[Array, "T D"],
    w1: Float[Array, "D F"],
    b1: Float[Array, " F"],
    w2: Float[Array, "F D"],
    b2: Float[Array, " D"],
    mesh: Mesh,
) -> Float[Array, "T D"]:
    """Columns, then rows, and one sum (Shoeybi et al. 2019, Megatron-LM, section 3)."""

    def on_one_device(x_TD, w1_Df, b1_f, w2_fD, b2_D):
        hidden_Tf = jax.nn.relu(x_TD @ w1_Df + b1_f)
        return jax.lax.psum(hidden_Tf @ w2_fD, "model") + b2_D

    run = jax.shard_map(on_one_device, mesh=mesh, in_specs=(P(), *COLUMNS_THEN_ROWS), out_specs=P())
    return run(x, w1, b1, w2, b2)


def sequence_parallel_mlp(
    x: Float[Array, "T D"],
    w1: Float[Array, "D F"],
    b1: Float[Array, " F"],
    w2: Float[Array, "F D"],
    b2: Float[Array, " D"],
    mesh: Mesh,
) -> Float[Array, "T D"]:
    """The sum in two halves: a gather before the MLP and a scattered sum after it (Korthikanti et al. 2022)."""

    def on_one_device(x_tD, w1_Df, b1_f, w2_fD, b2_D):
        x_TD = jax.lax.all_gather(x_tD, "model", axis=0, tiled=True)
        hidden_Tf = jax.nn.relu(x_TD @ w1_Df + b1_f)
        return jax.lax.psum_scatter(hidden_Tf @ w2_fD, "model", scatter_dimension=0, tiled=True) + b2_D

    rows = P("model", None)
    run = jax.shard_map(on_one_device, mesh=mesh, in_specs=(rows, *COLUMNS_THEN_ROWS), out_specs=rows)
    return run(x, w1, b1, w2, b2)


def data_parallel_gradient(
    loss_sum: Callable[[PyTree, Int[Array, "b T"]], tuple[Float[Array, ""], Int[Array, ""]]],
    parameters: PyTree,
    token_ids: Int[Array, "B T"],
    mesh: Mesh,
) -> tuple[Float[Array, ""], PyTree]:
    """One sum of loss, count and gradients over all devices, then one division."""

    def on_one_device(parameters, token_ids_bT):
        own = jax.lax.pcast(parameters, "data", to="varying")  # otherwise jax.grad sums over the devices as well
        (loss, count), gradients = jax.value_and_grad(loss_sum, has_aux=True)(own, token_ids_bT)
        loss, count, gradients = jax.lax.psum((loss, count, gradients), "data")
        return loss / count, jax.tree.map(lambda g: g / count, gradients)

    run = jax.shard_map(on_one_device, mesh=mesh, in_specs=(P(), P("data", None)), out_specs=P())
    return run(parameters, token_ids)
