"""The probe of problem 79: what a policy learns from the samples of another one. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp

from grader.authoring import Arrays, Reading, Subject, given
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


PROBES = {"learning": learning}
