"""Trains the small models that plays run in, from the references, and writes their weights and a record beside this
file.

    python -m problems.stage.make_weights pocket modern [--runs DIR]

A run that is already there is resumed or, if it is finished, only written. On two cores, each takes about ten minutes.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from safetensors.numpy import save_file

from harness.config import Config
from harness.pieces.load import load_pieces
from harness.presets import preset
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import log_to_stderr, open_session
from harness.run.state import load_state
from harness.training.sharding import by_dotted_name
from problems.stage import weights

FOLDER = Path(__file__).parent
REFERENCES = FOLDER.parents[1] / "solutions"
SMALL = {
    "d_model": "96",
    "num_layers": "3",
    "num_heads": "4",
    "context": "191",
    "steps": "800",
    "final_lr_fraction": "0.02",
}
SETTINGS = {
    "pocket": SMALL
    | {"d_ff": "384", "positions": "learned", "optimizer": "muon", "eval_every": "100", "eval_batches": "0"},
    "modern": SMALL | {"d_ff": "256", "num_kv_heads": "2", "eval_every": "400"},
}


def settings(name: str) -> Config:
    """The settings of the run that makes these weights."""
    return preset(name).with_options(SETTINGS[name])


def make(name: str, runs: Path) -> dict[str, Any]:
    """Trains one model and writes its files. Returns the record."""
    session = open_session(Run(runs / name), settings(name), load_pieces(REFERENCES), log=log_to_stderr)
    train(session, log=log_to_stderr, quiet=False)
    step, state = load_state(session)
    model: Any = session.functions.model(state)
    arrays = {
        path: np.asarray(jax.device_get(value), np.float16)
        for path, value in by_dotted_name(nnx.state(model, nnx.Param)).items()
    }
    path = FOLDER / f"{name}.safetensors"
    save_file(arrays, path)
    path.chmod(0o644)  # safetensors makes it readable by its owner only
    weights.put(model, {name: array.astype(np.float32) for name, array in arrays.items()}, name)
    modern = ("num_kv_heads", "rope_base", "norm_epsilon") if name == "modern" else ()
    sizes = ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers", *modern)
    record = {
        "made_by": "problems/stage/make_weights.py",
        "model": "ModernGPT of problem 40" if name == "modern" else "MiniGPT of problem 06",
        **{key: getattr(session.config, key) for key in sizes},
        "max_T": session.config.context + 1,
        "seed": session.config.seed,
        "steps": step,
        "parameters": int(sum(array.size for array in arrays.values())),
        "validation_stories": weights.VALIDATION_STORIES,
        "validation_loss": round(weights.validation_loss(model), 5),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record


def main() -> None:
    """Makes the weights that the command line names."""
    parser = argparse.ArgumentParser(description="Trains the models of plays and writes their weights.")
    parser.add_argument("names", nargs="+", choices=sorted(SETTINGS))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    arguments = parser.parse_args()
    for name in arguments.names:
        print(json.dumps(make(name, arguments.runs), indent=1))


if __name__ == "__main__":
    main()
