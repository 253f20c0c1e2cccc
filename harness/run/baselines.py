"""The losses that those of a run are compared with: of n-gram models of its data, and of its base before training."""

import json

from commandline.files import replace
from harness.run.folder import Run

NAMES = {"unigram": "unigram model", "bigram": "bigram model", "base": "base"}  # as charts have them


def read_baselines(run: Run) -> dict[str, float]:
    """The baselines of a run that are known yet, by the names in `NAMES`, in nats per token."""
    file = run.baselines_file
    return dict(json.loads(file.read_text("utf-8"))) if file.exists() else {}


def add_baselines(run: Run, losses: dict[str, float]) -> None:
    """Adds baselines to those of a run."""
    replace(run.baselines_file, json.dumps({**read_baselines(run), **losses}) + "\n")
