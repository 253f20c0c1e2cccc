"""Compares runs: what differs in their settings, and how far each has come."""

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from harness.config import Config
from harness.run.folder import Run
from harness.run.metrics_file import training_seconds
from harness.training.train_step import default_model

LOSS, BITS = "validation_loss", "validation_bits_per_byte"
LONGEST_VALUE = 40  # characters of a setting in a column

Entry = dict[str, Any]
ROWS = {  # label and format of each figure
    "parameters": ("parameters", ",d"),
    "step": ("last step", ",d"),
    "tokens": ("tokens seen", ",d"),
    "seconds": ("training time, s", ",.1f"),
    "tokens_per_s": ("tokens/s, median", ",.0f"),
    "best_step": ("best step", ",d"),
    LOSS: ("  validation loss", ".4f"),
    BITS: ("  bits per byte", ".4f"),
}


def compare(runs: Sequence[Run]) -> dict[str, Any]:
    """The comparison as a record for JSON. Its lists have one value per run; None is unknown.

    `at_step` and `at_tokens` hold the losses at the last step and at the last number of tokens with a validation in
    every run, or None if there is none. `notes` says which losses do not compare.
    """
    configs, metrics = [run.config() for run in runs], [run.metrics() for run in runs]
    return {
        "runs": [str(run.folder) for run in runs],
        "settings": _different_settings(configs),
        **_columns(map(_progress, configs, metrics)),
        "at_step": _at_last_common("step", metrics),
        "at_tokens": _at_last_common("tokens", metrics),
        "notes": [*_notes(runs, configs)],
    }


def table(comparison: dict[str, Any]) -> str:
    """The comparison, except for its notes, as lines for a terminal."""

    def figures(record: dict[str, Any]) -> list[tuple[str, list[str]]]:
        return [
            (label, ["unknown" if value is None else format(value, form) for value in record[key]])
            for key, (label, form) in ROWS.items()
            if key in record
        ]

    names = [Path(folder).name for folder in comparison["runs"]]
    settings = [(name, [*map(_shortened, _told(values))]) for name, values in comparison["settings"].items()]
    rows = [("", names), *settings, *figures(comparison)]
    for key, title in (("at_step", "at step {:,}"), ("at_tokens", "at {:,} tokens")):
        if at := comparison[key]:
            rows += [(title.format(at["at"]), [""] * len(names)), *figures(at)]
    first = max(len(label) for label, _ in rows)
    widths = [max(map(len, column)) for column in zip(*(values for _, values in rows), strict=True)]
    return "\n".join(
        "  ".join(
            [label.ljust(first), *(value.rjust(width) for value, width in zip(values, widths, strict=True))]
        ).rstrip()
        for label, values in rows
    )


def _told(values: Sequence[Any]) -> list[str]:
    """The values of a setting as text. Of lists, such as the names and hashes of pieces, only what not all runs
    have."""
    if not any(isinstance(value, tuple) for value in values):
        return [*map(str, values)]
    shared = set.intersection(*map(set, values))
    return [", ".join(str(item) for item in value if item not in shared) or "none" for value in values]


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"...{text[3 - LONGEST_VALUE :]}"


def _different_settings(configs: Sequence[Config]) -> dict[str, list[Any]]:
    """The settings that are not equal in all runs."""
    records = [dataclasses.asdict(config) for config in configs]
    columns = {name: [record[name] for record in records] for name in records[0] if name != "preset"}
    return {name: values for name, values in columns.items() if any(value != values[0] for value in values)}


def _progress(config: Config, metrics: list[Entry]) -> dict[str, Any]:
    """How far one run has come."""
    last = metrics[-1] if metrics else {"step": 0, "tokens": 0}
    speeds = [entry["tokens_per_s"] for entry in metrics]
    best = min(_validated(metrics), key=lambda entry: entry[LOSS], default={})
    return {
        "parameters": _parameters(config),
        "step": last["step"],
        "tokens": last["tokens"],
        "seconds": training_seconds(metrics),
        "tokens_per_s": statistics.median(speeds) if speeds else None,
        "best_step": best.get("step"),
        LOSS: best.get(LOSS),
        BITS: best.get(BITS),
    }


def _parameters(config: Config) -> int | None:
    """The number of parameters; None for the models of pieces, which only their code knows."""
    if config.pieces:
        return None
    model = nnx.eval_shape(lambda: default_model(config, nnx.Rngs(0)))
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))


def _validated(metrics: list[Entry]) -> list[Entry]:
    return [entry for entry in metrics if entry[LOSS] is not None]


def _at_last_common(key: str, metrics: Sequence[list[Entry]]) -> dict[str, Any] | None:
    """The losses at the highest value of `key` at which every run has a validation."""
    by_key = [{entry[key]: entry for entry in _validated(one)} for one in metrics]
    common = set.intersection(*map(set, by_key))
    if not common:
        return None
    at = max(common)
    return {"at": at, **_columns({name: one[at].get(name) for name in (LOSS, BITS)} for one in by_key)}


def _columns(records: Iterator[dict[str, Any]]) -> dict[str, list[Any]]:
    rows = list(records)
    return {key: [row[key] for row in rows] for key in rows[0]}


def _notes(runs: Sequence[Run], configs: Sequence[Config]) -> Iterator[str]:
    """Why losses do not compare."""

    def differ(*names: str) -> bool:
        return len({tuple(getattr(config, name) for name in names) for config in configs}) > 1

    keys = {run.data().key for run in runs}
    if differ("objective"):
        yield "The runs have different objectives: their losses do not compare."
    elif differ("validation_fraction") or (len(keys) > 1 if "" not in keys else differ("data")):
        yield "The runs have different data: their losses do not compare."
    elif differ("tokenizer"):
        yield (
            "The runs have different tokenizers: their losses in nats per token do not compare, only bits per byte do."
        )
    validated = ("tokenizer", "context", "packing", "batch_size", "eval_batches")
    if differ(*validated) and any(config.eval_batches for config in configs):
        yield (
            "The validation losses are of different parts of the validation data, whose length depends on "
            f"{', '.join(validated[:-1])} and {validated[-1]}. `harness eval RUN` evaluates a run on all of it."
        )
