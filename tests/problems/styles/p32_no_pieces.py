"""Nothing of the workspace's own: the harness trains its model."""


def pieces() -> dict:
    return {}


def settings() -> dict:
    return {"learning_rate": 4e-3, "warmup_steps": 20, "final_lr_fraction": 0.1}
