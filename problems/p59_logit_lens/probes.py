"""The probes of problem 59: what each layer would say, and the parts of a logit. Run in workers."""

from collections import OrderedDict
from typing import Any

import jax.numpy as jnp
from flax import nnx

from grader.authoring import Arrays, Reading, Subject, ToyGPT, given, named
from grader.problem import Case


def lens(subject: Subject, case: Case) -> Reading:
    """The logits after each number of blocks."""
    graphdef, state = ToyGPT.abstract(case)

    def program(state: Any, token_ids: Any) -> Arrays:
        return dict(named(subject.call("logit_lens", _model(graphdef, state, case), token_ids), "lens"))

    return subject.run(program, case, state, given(case, "token_ids"))


def attribution(subject: Subject, case: Case) -> Reading:
    """The parts of one logit (`parts.*`), and their sum (`total`)."""
    graphdef, state = ToyGPT.abstract(case)
    names = subject.problem.entry("logit_parts").returns

    def program(state: Any, token_ids: Any, token_id: Any) -> Arrays:
        result = subject.call("logit_parts", _model(graphdef, state, case), token_ids, token_id)
        parts = dict(named(OrderedDict(zip(names, result, strict=True)), "parts"))
        return {**parts, "total": jnp.asarray(sum(jnp.sum(jnp.asarray(part)) for part in parts.values()))}

    return subject.run(program, case, state, given(case, "token_ids"), given(case, "token_id"))


def _model(graphdef: Any, state: Any, case: Case) -> Any:
    model = nnx.merge(graphdef, state)
    model.ln_f.epsilon = case.values["epsilon"]
    return model


PROBES = {"lens": lens, "attribution": attribution}
