"""Packing: tokens/s of a train step with each of the three packings, with alternating steps, and the share of padding.

    python benchmarks/packing.py [ROUNDS] [--smoke]

The model is that of the preset pocket, on its stories, in rows of 512 tokens, which hold about three of them. Tokens
are targets: padding, and the first tokens of stories where nothing predicts them, do not count. All packings run under
the same load.
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from timing import smoke

from harness.memory import keep_freed_memory
from harness.presets import preset
from harness.run.batch_source import open_feed
from harness.run.folder import Run
from harness.run.run_session import Session, ignore, open_session

PACKINGS = ("packed", "padded", "segments")


def padding(session: Session) -> float:
    """The share of padding in the first rows, without the last token of each, which no step reads."""
    some = np.stack([session.rows[index] for index in range(min(len(session.rows), 2000))])
    return float((some[:, :-1] == -1).mean())


def main() -> None:
    """Prints a line for each packing."""
    keep_freed_memory()  # as the command does
    small = smoke()
    rounds = 2 if small else int(next((word for word in sys.argv[1:] if word.isdecimal()), "40"))
    config = replace(
        preset("pocket"), context=512, batch_size=4, mesh="1x1", **({"data": "pocket:2000"} if small else {})
    )
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, tuple[Session, Any, list[Any]]] = {}
        for packing in PACKINGS:
            session = open_session(Run(Path(folder)), replace(config, packing=packing), None, log=ignore, quiet=True)
            parts[packing] = session, open_feed(session), [session.functions.init()]
        times: dict[str, list[float]] = {packing: [] for packing in PACKINGS}
        targets = dict.fromkeys(PACKINGS, 0)
        for turn in range(rounds + 1):  # the first one compiles
            for packing, (session, feed, state) in parts.items():
                batch = feed.next(state[0])
                jax.block_until_ready(batch.arrays)
                start = time.perf_counter()
                state[0], metrics = session.functions.train_step(state[0], batch.arrays)
                float(metrics.loss)
                if turn:
                    times[packing].append(time.perf_counter() - start)
                    targets[packing] += int(batch.targets)
        for packing, (session, _, _) in parts.items():
            step = statistics.median(times[packing])
            print(
                f"{packing}: {1000 * step:.0f} ms a step, {targets[packing] / rounds:,.0f} tokens a step, "
                f"{targets[packing] / rounds / step:,.0f} tokens/s, {padding(session):.1%} padding"
            )


if __name__ == "__main__":
    main()
