"""One piece: the harness's model, trained with the learner's schedule."""

from p10_lr_schedule import warmup_cosine


def pieces() -> dict:
    return {"warmup_cosine": warmup_cosine}


def settings() -> dict:
    return {"learning_rate": 4e-3, "warmup_steps": 20, "final_lr_fraction": 0.1}
