"""The run: data, model and optimizer together, step after step, until it is done or told to stop; and from where it was when it
goes on."""

import collections
import contextlib
import functools
import math
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx

from commandline.progress import progress
from harness.data.ngrams import ngram_loss
from harness.errors import HarnessError
from harness.pieces import load as pieces
from harness.run import charts
from harness.run.folder import MetricsWriter, write_atomically
from harness.run.hardware import flops_per_token, memory_bytes, peak_flops
from harness.run.session import Say, Session, sample_text, start_from
from harness.training.checkpoint import Keeper, Restored
from harness.training.train_step import StepMetrics

RUN_AHEAD = 2  # steps handed to the device before the metrics of the first are looked at
SKIPPED_IN_A_ROW = 20

Watch = Callable[[int, str], None]


def train(session: Session, *, say: Say, quiet: bool = False, watch: Watch | None = None) -> bool:
    """Trains until the last step, from the latest checkpoint if there is one; false if it was told to stop before.

    Somebody who watches is told the number of steps done and how it goes, and gets no progress, charts or samples.
    """
    run, config = session.run, session.config
    lead = jax.process_index() == 0
    with run.locked() if lead else contextlib.nullcontext(), jax.set_mesh(session.mesh):
        # Before a folder is made for a run that cannot begin.
        start = None if run.config_file.exists() else start_from(session)
        if lead:
            resumed = run.begin(config)
            if session.pieces is not None:
                session.pieces.copy_to(run.pieces)
        else:
            resumed = run.config_file.exists()
        checkpoints = session.checkpoints()
        try:
            restored = checkpoints.restore_latest(session.programs.abstract, say) if resumed else None
            if restored is None and start is None:
                start = start_from(session)
            loop = _Loop(session, checkpoints, restored, start, say, quiet, watch)
            with contextlib.closing(loop):
                return loop.run()
        finally:
            checkpoints.close()


class _Waiting(NamedTuple):
    """A step handed to the device whose metrics nobody has looked at yet."""

    step: int
    tokens: int
    metrics: StepMetrics


class _Loop:
    """One execution of a run."""

    def __init__(
        self,
        session: Session,
        checkpoints: Keeper,
        restored: Restored | None,
        start: Any,
        say: Say,
        quiet: bool,
        watch: Watch | None,
    ):
        self.session, self.checkpoints, self.say, self.watch = session, checkpoints, say, watch
        self.quiet = quiet or watch is not None
        config, run = session.config, session.run
        self.lead = jax.process_index() == 0
        self.batches = session.batches()
        self.step = 0
        if restored is not None:
            self.step, self.state = restored.step, restored.state
            pieces.blame(session.pieces, lambda: self.batches.set_state(restored.data))
            say(f"Run {run.folder}: going on from step {self.step} of {config.steps}.")
        else:
            self.state = start
            size = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(session.programs.model(self.state), nnx.Param)))
            say(f"Run {run.folder}: {size:,} parameters, {config.steps} steps on {session.mesh.size} device(s).")
        if self.lead:
            run.keep_metrics(self.step)
        self.metrics = MetricsWriter(run.metrics_file) if self.lead else None
        self.entries: list[dict[str, Any]] = run.metrics() if self.lead else []
        self.waiting: collections.deque[_Waiting] = collections.deque()
        self.tokens = self.entries[-1]["tokens"] if self.entries else 0  # targets seen; padding is none
        self.skipped = self.entries[-1]["skipped"] if self.entries else 0
        self.skipped_in_a_row = 0
        self.token_flops = flops_per_token(config)
        self.peak = peak_flops() * session.mesh.size
        self.clock = time.perf_counter()

    def close(self) -> None:
        """Closes metrics.jsonl."""
        if self.metrics is not None:
            self.metrics.close()

    def run(self) -> bool:
        """To the last step, or to a signal."""
        config = self.session.config
        saved = self.step
        title = f"training {self.session.run.folder.name}"
        with (
            _stop_signals() as stop,
            progress(title, unit="steps", total=config.steps, done=self.step, quiet=self.quiet) as advance,
        ):
            while self.step < config.steps and not stop:
                rows = pieces.blame(self.session.pieces, functools.partial(next, self.batches))
                work = functools.partial(self.session.programs.step, self.state, self.session.put(rows))
                self.state, metrics = pieces.blame(self.session.pieces, work)
                self.step += 1
                targets = int((rows[:, 1:] >= 0).sum()) * jax.process_count()
                self.waiting.append(_Waiting(self.step, targets, metrics))
                if len(self.waiting) > RUN_AHEAD:
                    note = self._record(self.waiting.popleft())
                    advance(1, note)
                    if self.watch:
                        self.watch(self.step, note)
                if self.step % config.eval_every == 0 or self.step == config.steps:
                    advance(len(self.waiting), self._drain(validate=True))
                    self._save()
                    saved = self.step
            if saved != self.step:
                self._drain(validate=False)
                self._save()
            self.checkpoints.wait()
        if stop:
            self.say(f"Stopped and saved at step {self.step} of {config.steps}. The same command goes on from there.")
        return self.step >= config.steps

    def _record(self, waiting: "_Waiting", validation_loss: float | None = None) -> str:
        """Waits for the step, writes its line, says how it goes."""
        step = waiting.step
        loss, rate, norm, skipped = (float(value) for value in waiting.metrics)
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped > self.skipped else 0
        self.skipped = int(skipped)
        now = time.perf_counter()
        per_s = waiting.tokens / (now - self.clock)
        self.tokens += waiting.tokens
        self.clock = now
        entry = {
            "step": step,
            "loss": loss,
            "learning_rate": rate,
            "gradient_norm": None if math.isnan(norm) and self.session.pieces is not None else norm,
            "skipped": self.skipped,
            "tokens": self.tokens,
            "validation_loss": validation_loss,
            "tokens_per_s": round(per_s, 1),
            "mfu": round(per_s * self.token_flops / self.peak, 4),
            "memory": memory_bytes(),
        }
        if self.metrics is not None:
            self.metrics.write(entry)
            self.entries.append(entry)
        if self.skipped_in_a_row >= SKIPPED_IN_A_ROW:
            raise HarnessError(
                f"The gradients of {SKIPPED_IN_A_ROW} steps in a row, up to step {step}, were not finite, and their "
                f"updates were skipped. "
                f"Try a lower learning_rate than {self.session.config.learning_rate}, or warmup_steps; the last "
                f"checkpoint is from before."
            )
        return f"loss {loss:.3f}  {per_s:,.0f} tokens/s"

    def _drain(self, *, validate: bool) -> str:
        """Records every step that is waiting; with the last one, the validation loss of the state after it."""
        note = ""
        while len(self.waiting) > 1:
            note = self._record(self.waiting.popleft())
        if self.waiting:
            last = self.waiting.popleft()
            jax.block_until_ready(last.metrics)
            before = time.perf_counter()
            loss = self.session.validate(self.state) if validate else None
            self.clock += time.perf_counter() - before  # validation is no part of the step's time
            note = self._record(last, loss)
        if self.metrics is not None:
            self.metrics.sync()
        return note

    def _save(self) -> None:
        """A checkpoint, and what a person looks at: charts and a sample. Their time is no step's."""
        began = time.perf_counter()
        loss = self.entries[-1]["validation_loss"] if self.entries else None
        self.checkpoints.save(self.step, self.state, self.batches.get_state(), loss)
        if self.lead and loss is not None and not self.watch:
            run = self.session.run
            charts.draw(run.folder, self.entries, run.folder.name)
            if jax.process_count() == 1:
                run.samples.mkdir(exist_ok=True)
                write_atomically(run.samples / f"{self.step:07}.txt", sample_text(self.session, self.state) + "\n")
            self.say(
                f"step {self.step}: loss {self.entries[-1]['loss']:.4f}, validation {loss:.4f}, "
                f"{self.entries[-1]['tokens_per_s']:,.0f} tokens/s"
            )
        self.clock += time.perf_counter() - began


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """A list that is not empty once Ctrl-C or SIGTERM came; a second Ctrl-C ends at once, without a new checkpoint.

    One of several processes ends at once: if it left the loop at a step of its own, the others would wait for it for ever.
    """
    seen: list[int] = []
    if jax.process_count() > 1:
        yield seen
        return

    def stop(number: int, frame: Any) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report(session: Session) -> str:
    """What came of a run: losses beside what a unigram and a bigram model reach, speed, where things are."""
    run, config, prepared = session.run, session.config, session.prepared
    metrics = run.metrics()
    if not metrics:
        return "There is nothing to report yet."
    validated = [entry for entry in metrics if entry["validation_loss"] is not None]
    best = min(validated, key=lambda entry: entry["validation_loss"], default=None)
    last = metrics[-1]
    lines = [f"Run {run.folder}: {last['step']} of {config.steps} steps, {last['tokens']:,} tokens"]

    def row(name: str, value: str) -> None:
        lines.append(f"  {name:<28}{value}")

    row(
        "loss at the first step", f"{metrics[0]['loss']:.4f}  (ln of the vocabulary: {math.log(config.vocab_size):.4f})"
    )
    row("loss at the last step", f"{last['loss']:.4f}")
    if best is not None:
        row(
            "validation loss",
            f"{validated[-1]['validation_loss']:.4f} nats a token (best {best['validation_loss']:.4f}, step {best['step']})",
        )
    if config.task == "next":
        ngrams = ngram_loss(prepared.train, prepared.validation, config.vocab_size)
        row("a bigram model's", f"{ngrams.bigram:.4f}")
        row("a unigram model's", f"{ngrams.unigram:.4f}")
    row("updates skipped", str(last["skipped"]))
    speeds = [entry["tokens_per_s"] for entry in metrics]
    row("tokens/s, median", f"{np.median(speeds):,.0f}")
    row("model FLOP utilisation", f"{np.median([entry['mfu'] for entry in metrics]):.1%}")
    row("memory, peak", f"{max(entry['memory'] for entry in metrics) / 1e9:.2f} GB")
    row("charts", f"{run.folder / 'loss.png'}, {run.folder / 'lr.png'}")
    return "\n".join(lines)
