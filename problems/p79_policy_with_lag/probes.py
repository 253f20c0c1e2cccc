"""The probes of problem 79: what a policy learns from the samples of another one, and the loss of long texts. Run in
workers."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp

from grader.authoring import Arrays, Reading, Subject, given, named
from grader.problem import Case


def learning(subject: Subject, case: Case) -> Reading:
    """The probabilities of all tokens after a bandit's updates.

    Every second update is the first one on a batch: there, `old` is the array `new` itself.
    """
    values = case.values
    weight = values["kl_weight"]
    limits = (values["clip_low"], values["clip_high"], values["max_weight"])

    def program(scores: jax.Array, texts: jax.Array, sampler: jax.Array, rewards: jax.Array) -> Arrays:
        def log_p(scores: jax.Array) -> jax.Array:
            return jax.nn.log_softmax(scores)[texts]

        base, sampled = log_p(scores), jnp.ones(texts.shape, bool)

        def update(policies: tuple[jax.Array, jax.Array], number: jax.Array) -> Any:
            policy, before = policies
            first = number % 2 == 0
            before = jnp.where(first, policy, before)
            paid = rewards
            if values["penalty"] == "reward":
                paid = subject.call("penalized_rewards", rewards, log_p(before), base, sampled, weight)
            advantages = paid - jnp.mean(paid)

            def loss(policy: jax.Array) -> Any:
                new = log_p(policy)
                old = jnp.where(first, new, log_p(before))
                gain = subject.call("policy_loss", new, old, sampler, sampled, advantages, values["kind"], *limits)
                if values["penalty"] == "reward":
                    return gain
                return gain + weight * subject.call("kl_loss", new, old, sampler, base, sampled, limits[-1])

            return (policy - values["learning_rate"] * jax.grad(loss)(policy), before), None

        (policy, _), _ = jax.lax.scan(update, (scores, scores), jnp.arange(values["updates"]))
        return {"policy": jax.nn.softmax(policy)}

    return subject.run(program, case, *(given(case, name) for name in ("scores", "texts", "sampler", "rewards")))


def apart(subject: Subject, case: Case) -> Reading:
    """The policy loss, in which no exponential is combined with another one.

    XLA makes exp(a - b) of exp(a) / exp(b) where it compiles both together. Without `jax.jit` they are 0 / 0.
    """
    limits = [case.values[name] for name in ("kind", "clip_low", "clip_high", "max_weight")]

    def call(*arrays: jax.Array) -> Arrays:
        return named(subject.call("policy_loss", *arrays, *limits), "output")

    def program(*arrays: jax.Array) -> Arrays:
        traced, shapes = jax.make_jaxpr(call, return_shape=True)(*arrays)
        return jax.tree.unflatten(jax.tree.structure(shapes), _evaluated(traced.jaxpr, traced.consts, arrays))

    names = ("new", "old", "sampler", "sampled", "advantages")
    return subject.run(program, case, *(given(case, name) for name in names))


def _evaluated(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """The results of a trace, operation by operation, with a barrier behind each exponential."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def value(variable: Any) -> Any:
        return variable.val if isinstance(variable, jax.extend.core.Literal) else known[variable]

    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in ("jit", "pjit"):
            inner = equation.params["jaxpr"]
            results = _evaluated(inner.jaxpr, inner.consts, [value(each) for each in equation.invars])
        else:
            used = [*dict.fromkeys(each for each in equation.invars if not isinstance(each, jax.extend.core.Literal))]
            alone = jax.extend.core.Jaxpr([], used, equation.outvars, [equation])
            run = jax.extend.core.jaxpr_as_fun(jax.extend.core.ClosedJaxpr(alone, []))
            results = run(*map(value, used))
        if name in ("exp", "exp2"):
            results = [jax.lax.optimization_barrier(each) for each in results]
        known.update(zip(equation.outvars, results, strict=True))
    return [value(each) for each in jaxpr.outvars]


PROBES = {"learning": learning, "apart": apart}
