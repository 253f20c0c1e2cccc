"""The probe of problem 40: which tokens each output depends on. Runs in workers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, given, named
from grader.problem import Case


def reach(subject: Subject, case: Case) -> Reading:
    """The dependence of outputs on tokens, (T, T): 1 at (t, s) if another token s changes any bit of output t.

    Also the output, because a program that sees the right tokens may still compute something else from them, that of
    one token, and the outputs of models with the same parameters at the limits of `window` and `full_every`.
    """
    graphdef, parameters, rest = subject.build("ModernGPT", case)
    V: Any = case.values["vocab_size"]
    limits = {
        "window_of_1": {"window": 1},
        "window_longer_than_text": {"window": len(given(case, "token_ids")) + 1},
        "full_layers_only": {"full_every": 1},
    }
    others = {
        name: subject.build("ModernGPT", replace(case, values={**case.values, **sizes}))
        for name, sizes in limits.items()
    }

    def program(parameters: Any, token_ids: Any) -> Arrays:
        T = len(token_ids)

        def logits(s: Any) -> Any:
            out = nnx.merge(graphdef, parameters, rest)(jnp.where(jnp.arange(T) == s, (token_ids + 1) % V, token_ids))
            if jnp.shape(out)[:1] != (T,):
                raise BadOutputError("the output's first axis must be time, like the input's")
            return jnp.asarray(out).reshape(T, -1)

        # One loop computes them all, also the unchanged ones (s = T), because another program could round differently.
        rows = jnp.stack([logits(s) for s in range(T + 1)]) if subject.eager else jax.lax.map(logits, jnp.arange(T + 1))
        depends = jnp.any(rows[:T] != rows[T:], axis=-1).T.astype(jnp.int32)
        models = {"output": (graphdef, parameters, rest)}
        models |= {name: (graph, parameters, other) for name, (graph, _, other) in others.items()}
        outputs = {name: nnx.merge(*model)(token_ids) for name, model in models.items()}
        outputs["first_token_alone"] = nnx.merge(*models["output"])(token_ids[:1])
        return {
            "reach.depends": depends,
            **{k: v for name, out in outputs.items() for k, v in named(out, f"reach.{name}").items()},
        }

    return subject.run(program, case, parameters, given(case, "token_ids"))


PROBES = {"reach": reach}
