"""The probe of problem 30: the logits of each step. Runs in workers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.toy_models import ToyGPT
from grader.worker.tracing import given


def decoding(subject: Subject, case: Case) -> Reading:
    """The logits after each token.

    The steps are one loop, so the program holds the step once, and whatever a step leaves for the next is carried by the loop.
    """
    positions = {**case.values, "context": case.values["max_T"]}
    graphdef, state = ToyGPT.abstract(replace(case, values=positions))
    token_ids = given(case, "token_ids")

    def step(state: Any, cache: Any, token_id: Any) -> Any:
        logits, cache = subject.call("decode_step", nnx.merge(graphdef, state), cache, token_id)
        if logits is None or jnp.ndim(logits) != 1:
            raise BadOutputError(f"`decode_step` returned logits of shape {jnp.shape(logits)}; they must be (V,)")
        return logits, cache

    def program(state: Any, token_ids: Any) -> Arrays:
        cache = subject.call("empty_cache", nnx.merge(graphdef, state), case.values["context"])
        cache = jax.tree.map(jnp.asarray, cache)
        if subject.eager:
            rows = []
            for token_id in token_ids:
                logits, cache = step(state, cache, token_id)
                rows.append(logits)
            logits_TV = jnp.stack(rows)
        else:
            _check_carried(jax.eval_shape(step, state, cache, token_ids[0])[1], cache)
            logits_TV = jax.lax.scan(lambda cache, token_id: step(state, cache, token_id)[::-1], cache, token_ids)[1]
        return {f"logits.{position}": logits_TV[position] for position in range(len(token_ids))}

    return subject.run(program, case, state, token_ids)


def _check_carried(new: Any, old: Any) -> None:
    """Raises BadOutputError if a step returns a cache of another form, because it would be compiled again for every position."""
    if jax.tree.structure(new) != jax.tree.structure(old):
        raise BadOutputError("`decode_step` returned a cache of another structure than it was given")
    for path, leaf in jax.tree_util.tree_flatten_with_path(new)[0]:
        before = dict(jax.tree_util.tree_flatten_with_path(old)[0])[path]
        if leaf.shape != before.shape:
            name = jax.tree_util.keystr(path)
            raise BadOutputError(
                f"`decode_step` changed the shape of the cache{name} from {before.shape} to {leaf.shape}, so it would be "
                "compiled again for every position; write into a cache of fixed size"
            )


PROBES = {"decoding": decoding}
