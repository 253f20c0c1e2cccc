"""Problem 62: a sparse autoencoder. The page is in pages/p62_sparse_autoencoder.md."""

from jaxtyping import Array, Float, Int


def autoencode(
    x: Float[Array, "N D"],
    encoder: Float[Array, "D F"],
    decoder: Float[Array, "F D"],
    bias: Float[Array, "D"],
    k: int,
) -> tuple[Float[Array, "N D"], Float[Array, "N F"]]:
    """The pair (reconstruction, codes). A code has at most k numbers above 0."""
    raise NotImplementedError


def unit_rows(decoder: Float[Array, "F D"]) -> Float[Array, "F D"]:
    """The decoder with rows of length 1. A row of zeros stays as it is."""
    raise NotImplementedError


def project_gradient(
    decoder: Float[Array, "F D"],
    gradient: Float[Array, "F D"],
) -> Float[Array, "F D"]:
    """The gradient of a decoder with unit rows, without the part along each row."""
    raise NotImplementedError


def idle_tokens(idle: Int[Array, "F"], codes: Float[Array, "N F"]) -> Int[Array, "F"]:
    """For how many tokens each feature has not been above 0, after
    one more batch of N tokens."""
    raise NotImplementedError


def revive(
    encoder: Float[Array, "D F"],
    decoder: Float[Array, "F D"],
    idle: Int[Array, "F"],
    errors: Float[Array, "N D"],
    patience: int,
) -> tuple[Float[Array, "D F"], Float[Array, "F D"], Int[Array, "F"]]:
    """The triple (encoder, decoder, idle), in which features that were idle for
    `patience` tokens begin again.

    errors: what the reconstruction of each token misses, x - out.
    """
    raise NotImplementedError
