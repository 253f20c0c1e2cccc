"""The run: data, model and optimizer together, step after step, until it is done or told to stop; and from where it was when it
goes on."""

import collections
import dataclasses
import functools
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from harness import charts, pieces
from harness.assembly import loader, theirs
from harness.checkpoint import Checkpoints
from harness.config import Config
from harness.data import check, train_batches, validation_batches, windows
from harness.device import flops_per_token, memory_bytes, peak_flops
from harness.errors import HarnessError, UsageError
from harness.model import GPT
from harness.ngrams import ngram_loss
from harness.progress import progress
from harness.runs import MetricsWriter, Run, write_atomically
from harness.sample import (
    PROMPTS,
    CachedDecoder,
    Decoder,
    Sampling,
    WindowDecoder,
    encode_prompt,
    generate,
    stream_text,
)
from harness.sharding import make_mesh, put_batch
from harness.shards import Prepared, prepare
from harness.sources import open_source
from harness.state import Programs, StepMetrics, make_programs
from harness.tokenizer import get_tokenizer

RUN_AHEAD = 2  # steps handed to the device before the metrics of the first are looked at
SKIPPED_IN_A_ROW = 20

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Session:
    """A run made ready: everything but the state."""

    run: Run
    config: Config
    prepared: Prepared
    mesh: Mesh
    programs: Programs
    pieces: pieces.Pieces | None

    def batches(self) -> Any:
        """An endless iterator over this process's training rows, by the workspace's pipeline if it has one."""
        place = jax.process_index(), jax.process_count()
        if self.pieces is None or "make_loader" not in self.pieces.found:
            return train_batches(self.config, self.prepared.train, *place)
        return loader(self.config, self.pieces, windows(self.config, self.prepared.train), *place)

    def decoder(self, state: Any, sampling: Sampling) -> Decoder:
        """Continues texts with the model in `state`."""
        model = self.programs.model(state)
        if isinstance(model, GPT) and self.pieces is None:
            return CachedDecoder(model, sampling)
        return WindowDecoder(model, sampling, self.config.context)

    def validate(self, state: Any) -> float:
        """The mean loss, in nats a token, of the validation batches."""
        loss, count = 0.0, 0
        sums = [
            self.programs.evaluate(state, put_batch(rows, self.mesh))
            for rows in validation_batches(
                self.config, self.prepared.validation, jax.process_index(), jax.process_count()
            )
        ]
        for part, number in jax.device_get(sums):
            loss, count = loss + float(part), count + int(number)
        return loss / max(count, 1)


def open_session(run: Run, config: Config, found: pieces.Pieces | None, *, say: Say, quiet: bool = False) -> Session:
    """Data, mesh and programs of a run. Raises UsageError for settings, data or devices that do not go together."""
    tokenizer = get_tokenizer(config.tokenizer)
    if not config.vocab_size:
        config = dataclasses.replace(config, vocab_size=tokenizer.n_vocab)
    if found is not None:
        config = dataclasses.replace(config, pieces=found.names())
        pieces.check_config(config, found)
    prepared = prepare(open_source(config.data, config.validation), tokenizer, quiet=quiet)
    for sentence in check(config, prepared):
        say(sentence)
    mesh = make_mesh(config)
    with jax.set_mesh(mesh):
        if found is None:
            programs = make_programs(config, mesh)
        else:
            programs = pieces.blame(found, lambda: make_programs(config, mesh, theirs(config, found)))
    return Session(run, config, prepared, mesh, programs, found)


def train(session: Session, *, say: Say, quiet: bool = False) -> bool:
    """Trains until the last step, from the latest checkpoint if there is one; false if it was told to stop before."""
    run, config = session.run, session.config
    lead = jax.process_index() == 0
    with run.locked() if lead else nullcontext(), jax.set_mesh(session.mesh):
        if lead:
            resumed = run.begin(config)
            if session.pieces is not None:
                session.pieces.copy_to(run.pieces)
        else:
            resumed = run.config_file.exists()
        checkpoints = Checkpoints(run.checkpoints)
        try:
            restored = checkpoints.restore_latest(session.programs.abstract, say) if resumed else None
            return _Loop(session, checkpoints, restored, say, quiet).run()
        finally:
            checkpoints.close()


class _Waiting(NamedTuple):
    """A step handed to the device whose metrics nobody has looked at yet."""

    step: int
    tokens: int
    metrics: StepMetrics


class _Loop:
    """One execution of a run."""

    def __init__(self, session: Session, checkpoints: Checkpoints, restored: Any, say: Say, quiet: bool):
        self.session, self.checkpoints, self.say, self.quiet = session, checkpoints, say, quiet
        config, run = session.config, session.run
        self.lead = jax.process_index() == 0
        self.batches = session.batches()
        self.step = 0
        if restored is not None:
            self.step, self.state = restored.step, restored.state
            self.batches.set_state(restored.data)
            say(f"Run {run.folder}: going on from step {self.step} of {config.steps}.")
        else:
            self.state = session.programs.create()
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
                rows = next(self.batches)
                work = functools.partial(self.session.programs.step, self.state, put_batch(rows, self.session.mesh))
                self.state, metrics = pieces.blame(self.session.pieces, work)
                self.step += 1
                targets = int((rows[:, 1:] >= 0).sum()) * jax.process_count()
                self.waiting.append(_Waiting(self.step, targets, metrics))
                if len(self.waiting) > RUN_AHEAD:
                    advance(1, self._record(self.waiting.popleft()))
                if self.step % config.eval_every == 0 or self.step == config.steps:
                    advance(len(self.waiting), self._drain(validate=True))
                    self._save()
                    saved = self.step
            if saved != self.step:
                self._drain(validate=False)
                self._save()
            self.checkpoints.wait()
        if self.metrics is not None:
            self.metrics.close()
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
        if self.lead and loss is not None:
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


@contextmanager
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


def sample_text(session: Session, state: Any) -> str:
    """The task's prompt and how the model goes on."""
    tokenizer, prompt = get_tokenizer(session.config.tokenizer), PROMPTS[session.config.task]
    if session.config.task == "same":
        sampling = Sampling(temperature=0.0, max_tokens=8)
    else:
        sampling = Sampling(temperature=0.5, seed=session.config.seed)
    tokens = generate(session.decoder(state, sampling), encode_prompt(tokenizer, prompt), sampling, tokenizer.eot_token)
    return prompt + "".join(stream_text(tokenizer, tokens))


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


def load_state(session: Session, step: int | None = None) -> tuple[int, Any]:
    """The state at the best checkpoint, or at `step`; of the optimizer's part, shapes only. Raises UsageError if there is
    none."""
    checkpoints = Checkpoints(session.run.checkpoints, read_only=True)
    try:
        steps = checkpoints.steps()
        chosen = checkpoints.best() if step is None else step
        if chosen is None or chosen not in steps:
            there = f"There are: {', '.join(map(str, steps))}." if steps else "There is none yet."
            raise UsageError(
                f"Run {session.run.folder} has no checkpoint{'' if step is None else f' of step {step}'}. {there}"
            )
        restored = checkpoints.restore(chosen, session.programs.abstract, only="0.")
    except ValueError as error:
        raise HarnessError(f"The checkpoint of step {chosen} of {session.run.folder} is damaged: {error}.") from error
    finally:
        checkpoints.close()
    return restored.step, restored.state


def say(sentence: str) -> None:
    """To stderr, from the first process only: stdout is for what was asked for."""
    if jax.process_index() == 0:
        print(sentence, file=sys.stderr, flush=True)
