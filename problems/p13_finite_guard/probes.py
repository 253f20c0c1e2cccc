"""Probes of problem 13: a guarded optimizer on good and bad gradients, and trees with bad leaves. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.authoring import Arrays, BadOutputError, Reading, Subject, eager, given, named
from grader.problem import Case

NO_LEAF, UNKNOWN_PATH = -1, -2
BAD = (None, np.nan, np.inf, -np.inf)


def guarding(subject: Subject, case: Case) -> Reading:
    """The updates and the `skipped` count of each step, and the inner mean at the end."""
    # The update is the mean gradient times the step count, so it reveals both a bad mean and a count that advanced.
    # Its last part makes every update finite, so a guard that tests the updates instead of the gradients skips nothing.
    # If it gets the parameters, they decay.
    inner = optax.chain(
        optax.trace(decay=0.9),
        optax.scale_by_schedule(lambda count: -0.1 * (1 + count)),
        optax.stateless(lambda updates, parameters: updates if parameters is None else _decayed(updates, parameters)),
        optax.stateless(lambda updates, _: jax.tree.map(jnp.nan_to_num, updates)),
    )
    kind = optax.GradientTransformation, "an optax.GradientTransformation"

    def program(given: Arrays) -> Arrays:
        tx = subject.call("finite_guard", inner, returns=kind)
        gradients = {"a_embed": given["a_embed"], "z": [{"bias": given["bias"]}, {"scale": given["scale"]}]}
        parameters = jax.tree.map(lambda x: jnp.ones_like(x[0]), gradients)
        arrays: Arrays = {}
        state = tx.init(parameters)
        _skipped(state)
        ways: list[tuple[Any, ...]] = [(), (parameters,), (None,)]  # the parameters left out, given, and None
        for i in range(len(given["bias"])):
            update: Any = tx.update if subject.eager else jax.jit(tx.update)
            updates, state = update(jax.tree.map(lambda x: x[i], gradients), state, *ways[i % len(ways)])  # noqa: B023
            arrays |= named(updates, f"update.{i}") | {f"skipped.{i}": _skipped(state)}
        means = [leaf for leaf in jax.tree.leaves(state) if jnp.ndim(leaf)]
        return arrays | {f"inner.{i}": leaf for i, leaf in enumerate(means)}

    return subject.run(program, case, {key: given(case, key) for key in case.values})


def _decayed(updates: Any, parameters: Any) -> Any:
    return jax.tree.map(lambda update, parameter: update - 0.1 * parameter, updates, parameters)


def _skipped(state: Any) -> Any:
    skipped = state.get("skipped") if isinstance(state, dict) else getattr(state, "skipped", None)
    if skipped is None or jnp.shape(skipped):
        raise BadOutputError("the state has no scalar field `skipped`; add one that counts the skipped steps")
    count = jnp.asarray(skipped)
    if count.dtype != jnp.int32:
        raise BadOutputError(f"`skipped` is {count.dtype}; it must be int32, which a long run does not exceed")
    return count


@eager
def searching(subject: Subject, case: Case) -> Reading:
    """For each tree, the number of the leaf that `first_nonfinite` names."""
    leaf_numbers = []
    for bad in case.values["bad"]:
        leaves = [np.array(row) for row in case.values["x"]]
        for leaf, kind in zip(leaves, bad, strict=True):
            if BAD[kind] is not None:
                leaf[len(leaf) // 2] = BAD[kind]
        *inner, head = map(jnp.asarray, leaves)
        # Keys are inserted in another order than JAX flattens them in.
        blocks = [{"ff": ff, "attn": attn} for attn, ff in zip(inner[::2], inner[1::2], strict=True)]
        tree = {"head": head, "blocks": blocks}
        paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
        path = subject.call("first_nonfinite", tree)
        leaf_numbers.append(NO_LEAF if path is None else paths.index(path) if path in paths else UNKNOWN_PATH)
    return Reading({"first_bad_leaf": np.array(leaf_numbers, np.int32)})


PROBES = {"guarding": guarding, "searching": searching}
