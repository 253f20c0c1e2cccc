"""The rotary positions of a model in its config.json: as settings, and as fields."""

import math
from typing import Any

from harness.data.known_fields import unknown_fields
from harness.errors import UsageError
from harness.hugging_face.layout import Fields
from harness.model_config import ROPE_SCALINGS, ModelConfig


def rope_settings(fields: Fields, rotated: float) -> dict[str, Any]:
    """The settings of the positions. `rotated` is the fraction of the head width that is rotated unless a field says
    otherwise.

    Raises UsageError for a scaling that the harness does not have.
    """
    rope: Fields = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    kind = "none" if kind == "default" else kind
    if kind not in ROPE_SCALINGS:
        raise UsageError(f"Rope scaling ({kind}) is not supported; only {', '.join(ROPE_SCALINGS)} are.")
    if unknown := unknown_fields(rope, "rope", kind):
        raise UsageError(f"The field {unknown[0]} of a rope scaling is not supported.")
    if kind == "yarn":
        kind, rope = "yarn" if rope.get("truncate", True) else "yarn_exact", _yarn(rope, fields)
    numbers = [f"{rope[name]:g}" if float(f"{rope[name]:g}") == rope[name] else repr(rope[name])
               for name in ROPE_SCALINGS[kind]]  # fmt: skip
    fields = {"rotary_pct": rotated, "rotary_emb_base": 10_000.0, **fields, **rope}
    fields = {"partial_rotary_factor": fields["rotary_pct"], "rope_theta": fields["rotary_emb_base"], **fields}
    return {
        "positions": "rope",
        "rope_base": float(fields["rope_theta"]),
        "rotary_fraction": float(fields["partial_rotary_factor"]),
        "rope_scaling": ":".join([kind, *numbers]),
    }


def _yarn(rope: Fields, fields: Fields) -> Fields:
    """The numbers of YaRN, with those that are missing as in transformers."""
    factor, scale, of_all = rope["factor"], rope.get("mscale"), rope.get("mscale_all_dim")

    def sharper(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    return {
        "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": fields["max_position_embeddings"],
        "attention_factor": sharper(scale) / sharper(of_all) if scale and of_all else sharper(1.0),
        **{name: value for name, value in rope.items() if value is not None},
    }  # fmt: skip


def rope_fields(config: ModelConfig, **others: float) -> Fields:
    """The fields of the positions, as versions 4 and 5 of transformers call them."""
    kind, numbers = config.scaling
    scaling: Fields = {
        "rope_type": {"none": "default", "yarn_exact": "yarn"}.get(kind, kind),
        **dict(zip(ROPE_SCALINGS[kind], numbers, strict=True)),
        **({"truncate": False} if kind == "yarn_exact" else {}),
    }
    if "original_max_position_embeddings" in scaling:
        scaling["original_max_position_embeddings"] = int(scaling["original_max_position_embeddings"])
    return {
        "rope_theta": config.rope_base,
        "rope_parameters": {
            **scaling, "rope_theta": config.rope_base, **others,
        },
        **({} if kind == "none" else {"rope_scaling": scaling}),
    }  # fmt: skip
