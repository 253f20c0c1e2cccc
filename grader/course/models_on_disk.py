"""Models in the cache of the Hugging Face hub, found by their config.json, without a network.

The cache has a folder `models--ORG--NAME` for each model, and in it `refs/main` with the name of a folder in
`snapshots`.
"""

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_FOLDER = re.compile(r"models--([\w-][\w.-]*?)--([\w-][\w.-]*)")


@dataclass(frozen=True)
class ModelOnDisk:
    """A model of the hub, ORG/NAME, and the bytes of its weights."""

    name: str
    size: int


def smallest(kinds: Collection[str]) -> ModelOnDisk | None:
    """Returns the smallest model in the cache whose `model_type` is one of these, with weights in safetensors; None if
    there is none."""
    found = [model for folder in _folders() if (model := _model(folder, kinds))]
    return min(found, key=lambda model: (model.size, model.name), default=None)


def _folders() -> list[Path]:
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()
    try:
        return list(cache.iterdir())
    except OSError:
        return []


def _model(folder: Path, kinds: Collection[str]) -> ModelOnDisk | None:
    """Returns the model in a folder of the cache, unless it is of another kind, quantized, incomplete or unreadable."""
    name = _FOLDER.fullmatch(folder.name)
    if name is None:
        return None
    try:
        snapshot = folder / "snapshots" / (folder / "refs" / "main").read_text("utf-8").strip()
        fields = json.loads((snapshot / "config.json").read_text("utf-8"))
        wanted = fields.get("model_type") in kinds and not fields.get("quantization_config")
        size = sum(file.stat().st_size for file in snapshot.glob("*.safetensors")) if wanted else 0
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    return ModelOnDisk("/".join(name.groups()), size) if size else None
