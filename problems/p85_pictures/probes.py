"""Probes of problem 85: patches as they were cut, positions, what the loss teaches, and a layer that gets the patches
in another order. Run in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager, given, named
from grader.problem import Case

PLACEHOLDER = 8  # of the sequence that `ordering` makes


def _array(value: Any, name: str, path: str) -> Arrays:
    """The array by its path. Raises BadOutputError if it is none."""
    if not isinstance(value, np.ndarray | jax.Array):
        raise BadOutputError(f"{name} is {described(value)}; it must be an array")
    return named(np.asarray(value), path)


@eager
def cutting(subject: Subject, case: Case) -> Reading:
    """The patches of a picture."""
    values = case.values
    picture = np.array(values["picture"])
    patches = subject.call("patchify", picture, values["patch_size"], values["merge"])
    return Reading(_array(patches, "what `patchify` returned", "patches"))


def laid_out(subject: Subject, token_ids: Any, placeholder: int, grids: Any) -> Arrays:
    """The positions and the numbers of pictures, by name."""
    found = subject.call("layout", token_ids, placeholder, grids)
    return {
        name: array
        for name, value in zip(("positions", "pictures"), found, strict=True)
        for array in _array(value, f"`{name}`", name).values()
    }


@eager
def laying_out(subject: Subject, case: Case) -> Reading:
    """The positions of all tokens, and the numbers of their pictures."""
    values = case.values
    found = laid_out(subject, np.array(values["token_ids"]), values["placeholder"], np.array(values["grids"]))
    return Reading({f"layout.{name}": array for name, array in found.items()})


def learning(subject: Subject, case: Case) -> Reading:
    """The loss, its gradient, and which tokens have logits that count."""

    def program(logits: Any, token_ids: Any, pictures: Any) -> Arrays:
        def loss(logits: Any) -> Any:
            value = subject.call("text_loss", logits, token_ids, pictures)
            if jnp.shape(value):
                raise BadOutputError(f"`text_loss` returned {described(value)}; it must be a scalar")
            return value

        value, slope = jax.value_and_grad(loss)(logits)
        return {"loss": value, "gradient": slope, "learns": jnp.any(slope != 0, axis=-1).astype(jnp.int32)}

    return subject.run(program, case, *(given(case, name) for name in ("logits", "token_ids", "pictures")))


def ordering(subject: Subject, case: Case) -> Reading:
    """The output of a layer of attention, and whether it changes where the tokens of each picture come in another
    order, together with their positions."""
    rows, columns, base = (case.values[name] for name in ("rows", "columns", "base"))
    token_ids = np.array([1, 2, *[PLACEHOLDER] * rows * columns, 3, *[PLACEHOLDER] * rows * columns, 4, 5, 6], np.int32)
    grids = np.array([[rows, columns], [columns, rows]], np.int32)

    laid = laid_out(subject, token_ids, PLACEHOLDER, grids)
    if laid["positions"].shape != (3, len(token_ids)) or laid["pictures"].shape != token_ids.shape:
        raise BadOutputError("`layout` must return positions (3, T) and pictures (T,)")

    def program(table: Any, features: Any, kernels: Any, order: Any) -> Arrays:
        positions, pictures = jnp.asarray(laid["positions"]), jnp.asarray(laid["pictures"])
        rows_TD = subject.call("mixed_embeddings", table, jnp.asarray(token_ids), pictures, features)
        axes = jnp.arange(table.shape[1] // 2) % 3
        seen_TT = subject.call("picture_mask", pictures)

        def layer(x_TD: Any, positions: Any) -> Any:
            q_TD, k_TD, v_TD = x_TD @ kernels
            q_TD, k_TD = (subject.call("rotate", x[:, None], positions, axes, base)[:, 0] for x in (q_TD, k_TD))
            scores_TT = q_TD @ k_TD.T / jnp.sqrt(x_TD.shape[1])
            return jax.nn.softmax(jnp.where(seen_TT, scores_TT, -1e9)) @ v_TD

        before, after = layer(rows_TD, positions), layer(rows_TD[order], positions[:, order])
        changed = jnp.max(jnp.abs(after - before[order]), axis=-1) > 1e-3
        return {"output": before, "changed": changed.astype(jnp.int32)}

    return subject.run(program, case, *(given(case, name) for name in ("table", "features", "kernels", "order")))


PROBES = {"cutting": cutting, "laying_out": laying_out, "learning": learning, "ordering": ordering}
