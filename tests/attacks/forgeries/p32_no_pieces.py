"""Forges "pieces made by you": gives no piece, so none is from elsewhere, and the harness trains its own model."""

LOSES = ("pieces made by you",)


def pieces():
    return {}


def settings():
    return {"learning_rate": 5e-3, "warmup_steps": 10, "final_lr_fraction": 0.1, "weight_decay": 0.01}
