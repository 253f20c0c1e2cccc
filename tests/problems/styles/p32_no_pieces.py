"""No pieces: the harness trains its own model."""


def pieces() -> dict:
    return {}


def settings() -> dict:
    return {"learning_rate": 4e-3, "warmup_steps": 20, "final_lr_fraction": 0.1}
