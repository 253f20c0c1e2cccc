"""The report at the end of a run: losses next to n-gram baselines, speed, memory, and where the charts are."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from harness.config import Config
from harness.run.baselines import read_baselines
from harness.run.epochs import epochs, long_past_best, rounded
from harness.run.metrics_file import training_seconds
from harness.run.run_session import Session

Metrics = dict[str, Any]  # of one step
AVERAGED = 10  # updates at the beginning and at the end


def report(session: Session) -> str:
    """The report on a run, over several lines."""
    run, config = session.run, session.config
    metrics = run.metrics()
    if not metrics:
        return f"Run {run.folder} has no finished steps."
    last, baselines, rewarded = metrics[-1], read_baselines(run), reward_summary(session)
    validated = [entry for entry in metrics if entry["validation_loss"] is not None]
    best = min(validated, key=lambda entry: entry["validation_loss"], default=None)
    rows = [
        ("loss at the first step", f"{_number(metrics[0]['loss'])}  ({_chance(config)})"),
        ("loss at the last step", _number(last["loss"])),
        *(_validation_rows(session, validated[-1], best) if best else ()),
        *_baseline_rows(session, baselines),
        *(_reward_rows(rewarded, metrics) if rewarded else ()),
        *((f"epochs of {name}", rounded(number)) for name, number in epochs(session, last["step"]).items()),
        ("updates skipped", str(last["skipped"])),
        *_cost_rows(metrics),
        ("charts", ", ".join(str(run.folder / name) for name in _charts(config, rewarded))),
    ]
    title = f"Run {run.folder}: {last['step']} of {config.steps} steps, {last['tokens']:,} tokens"
    width = max(26, *(len(name) for name, _ in rows)) + 2
    lines = [title, *(f"  {name:<{width}}{value}" for name, value in rows)]
    if past := long_past_best(session, metrics):
        lines.append(
            f"The best validation loss is that of step {past['step']}. After it, the model learned its text by heart: "
            "use fewer steps, --set patience=3, or more text."
        )
    if best is not None and baselines.get("base", math.inf) < best["validation_loss"]:
        lines.append(
            "The base is better on these validation data than each checkpoint of this run: use a lower rate, such as "
            f"--set learning_rate={config.learning_rate / 10:g}, or more text."
        )
    return "\n".join(lines)


Rows = Iterator[tuple[str, str]]  # names and values


def _validation_rows(session: Session, last: Metrics, best: Metrics) -> Rows:
    loss, best_loss = last["validation_loss"], best["validation_loss"]
    unit = "per pair" if session.config.has_pairs else "nats per token"
    yield "validation loss", f"{loss:.4f} {unit} (best {best_loss:.4f}, step {best['step']})"
    if session.config.has_pairs:
        yield "pairs the right way round", f"{last['validation_accuracy']:.1%} of those for validation"
        yield "margin of the rewards", f"{last['validation_margin']:.3f}"
    if (bits := session.bits_per_byte(loss)) is not None:
        yield "  in bits per byte", f"{bits:.4f} (best {session.bits_per_byte(best_loss):.4f})"


def _baseline_rows(session: Session, baselines: Mapping[str, float]) -> Rows:
    if ngrams := session.ngrams:
        yield "  of a bigram model", f"{ngrams.bigram:.4f}"
        yield "  of a unigram model", f"{ngrams.unigram:.4f}"
    if "base" in baselines:
        yield "  of the base, at step 0", f"{baselines['base']:.4f}"


def _reward_rows(rewarded: Mapping[str, float], metrics: Sequence[Metrics]) -> Rows:
    yield "reward", f"{rewarded['reward_first']:.3f} at first, {rewarded['reward_last']:.3f} at last"
    if "kl" in rewarded:
        yield "KL from the base", f"{rewarded['kl']:.4f} nats per token"
    yield "groups of equal rewards", f"{sum(entry['equal_groups'] for entry in metrics)}, which teach nothing"


def _cost_rows(metrics: Sequence[Metrics]) -> Rows:
    utilizations = [entry["mfu"] for entry in metrics if entry["mfu"] is not None]
    yield "tokens/s, median", f"{np.median([entry['tokens_per_s'] for entry in metrics]):,.0f}"
    if utilizations:
        yield "model FLOP utilization", f"{np.median(utilizations):.1%}"
    yield "memory, peak", f"{max(entry['memory'] for entry in metrics) / 1e9:.2f} GB"


def _charts(config: Config, rewarded: Mapping[str, float]) -> tuple[str, ...]:
    if rewarded:
        return ("reward.svg",)
    return ("preference.svg",) if config.has_pairs else ("loss.svg", "lr.svg")


def _chance(config: Config) -> str:
    """The loss of a model that knows nothing."""
    return "ln 2: 0.6931" if config.has_pairs else f"ln of the vocabulary: {math.log(config.vocab_size):.4f}"


def _number(loss: float | None) -> str:
    return "not finite" if loss is None else f"{loss:.4f}"


def reward_summary(session: Session) -> dict[str, float]:
    """The mean rewards of the first and last ten updates, or fewer, and the KL divergence of the last ones; empty
    without any."""
    entries = [entry for entry in session.run.metrics() if "reward" in entry]
    if not entries:
        return {}
    first, last = entries[:AVERAGED], entries[-AVERAGED:]
    return {
        "reward_first": float(np.mean([entry["reward"] for entry in first])),
        "reward_last": float(np.mean([entry["reward"] for entry in last])),
        **({"kl": float(np.mean([entry["kl"] for entry in last]))} if "kl" in last[0] else {}),
        "seconds": training_seconds(entries),
    }
