"""Problem 70: distillation. The page is in pages/p70_distillation.md."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int


def token_loss(
    student_logits: Float[Array, "T V"],
    teacher_logits: Float[Array, "T V"],
    token_ids: Int[Array, "T"],
    is_target: Bool[Array, "T"],
    temperature: float,
    soft_weight: float,
) -> Float[Array, ""]:
    """The mean, over the targets, of the soft loss and of the hard loss, in nats.
    Returns 0 if there are no targets.

    The soft loss has the weight `soft_weight`, and the hard loss the rest. No gradient
    reaches `teacher_logits`.
    """
    raise NotImplementedError


def top_k_targets(
    teacher_logits: Float[Array, "T V"], k: int, temperature: float
) -> tuple[Int[Array, "T k"], Float[Array, "T k"]]:
    """The pair (ids, log_p): the k most likely tokens of each row, and their
    log-probabilities among all V tokens."""
    raise NotImplementedError


def top_k_loss(
    student_logits: Float[Array, "T V"],
    ids: Int[Array, "T k"],
    log_p: Float[Array, "T k"],
    temperature: float,
) -> Float[Array, ""]:
    """The mean soft loss over k + 1 outcomes: the k tokens, and any other token. No
    gradient reaches `log_p`."""
    raise NotImplementedError


def sequence_loss(
    student_logits: Float[Array, "B T V"],
    token_ids: Int[Array, "B T"],
    is_written: Bool[Array, "B T"],
) -> Float[Array, ""]:
    """The mean, over N texts by the teacher, of minus the log-probability of
    the text under the student."""
    raise NotImplementedError


def on_policy_loss(
    student_logits: Float[Array, "B T V"],
    teacher_logits: Float[Array, "B T V"],
    is_written: Bool[Array, "B T"],
) -> Float[Array, ""]:
    """The mean of KL(student‖teacher) over the written tokens of N texts by the
    student. Returns 0 if there are none.

    No gradient reaches `teacher_logits`.
    """
    raise NotImplementedError
