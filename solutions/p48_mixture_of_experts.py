"""Problem 48, reference: a mixture of experts (Shazeer et al. 2017), with the balance loss of Fedus et al. 2021,
equation 4."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class MixtureOfExperts(nnx.Module):
    """Feed-forward networks of which each token uses `top_k`. Each of them has room for `capacity` tokens."""

    def __init__(self, d_model: int, d_ff: int, num_experts: int, top_k: int, capacity: int, rngs: nnx.Rngs) -> None:
        self.top_k, self.capacity = top_k, capacity
        initial = nnx.initializers.lecun_normal(batch_axis=0)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.w_in = nnx.Param(initial(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(initial(rngs.params(), (num_experts, d_ff, d_model)))

    def __call__(self, x_TD: Float[Array, "T D"]) -> tuple[Float[Array, "T D"], Float[Array, ""]]:
        """The output, and the balance loss."""
        T, D = x_TD.shape
        E, C, k = len(self.w_in), self.capacity, self.top_k
        odds_TE = jax.nn.softmax(self.router(x_TD))
        weights_Tk, experts_Tk = jax.lax.top_k(odds_TE, k)
        weights_Tk = weights_Tk / weights_Tk.sum(axis=1, keepdims=True)

        # The choices token by token: N = T k of them. The place of a choice is the number of earlier ones of its
        # expert.
        expert_N, token_N = experts_Tk.reshape(-1), jnp.arange(T * k) // k
        chosen_NE = jax.nn.one_hot(expert_N, E, dtype=jnp.int32)
        place_N = jnp.sum((jnp.cumsum(chosen_NE, axis=0) - 1) * chosen_NE, axis=1)

        # A place of C or more is outside of the array: nothing is written there, and zeros are read.
        x_ECD = jnp.zeros((E, C, D)).at[expert_N, place_N].set(x_TD[token_N], mode="drop")
        hidden_ECF = nnx.relu(jnp.einsum("ecd,edf->ecf", x_ECD, self.w_in[...]))
        y_ECD = jnp.einsum("ecf,efd->ecd", hidden_ECF, self.w_out[...])
        y_TkD = y_ECD.at[expert_N, place_N].get(mode="fill", fill_value=0).reshape(T, k, D)
        out_TD = jnp.sum(weights_Tk[:, :, None] * y_TkD, axis=1)

        balance = E * jnp.sum(chosen_NE.mean(axis=0) * odds_TE.mean(axis=0))
        return out_TD, balance
