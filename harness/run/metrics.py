"""The lines of metrics of a run: what each step adds to them, and what they say of the steps so far."""

import contextlib
import math
import statistics
import time
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax

from harness import processes
from harness.errors import HarnessError
from harness.run.hardware import flops_per_token, memory_bytes, utilization
from harness.run.metrics_file import MetricsWriter
from harness.run.run_session import Log, Session
from harness.training.train_step import StepMetrics

MAX_SKIPPED_IN_A_ROW = 20
NOTHING: Mapping[str, float] = types.MappingProxyType({})


class PendingStep(NamedTuple):
    """A step dispatched to the device whose metrics have not been read."""

    step: int
    targets: int | jax.Array
    metrics: StepMetrics
    more: dict[str, float]  # of the feed


class Metrics:
    """The lines of metrics up to the present step. The first process writes them to metrics.jsonl, and reads earlier
    ones."""

    def __init__(self, session: Session, step: int, log: Log):
        config, run = session.config, session.run
        self.session, self.log = session, log
        self.lines: list[dict[str, Any]] = []
        self._writer = None
        if processes.is_first():
            run.truncate_metrics(step)
            self._writer, self.lines = MetricsWriter(run.metrics_file), run.metrics()
        self._tokens = self.lines[-1]["tokens"] if self.lines else 0  # targets so far, without padding
        self._skipped = self.lines[-1]["skipped"] if self.lines else 0
        self.skipped_in_a_row = 0
        self._was_finite = True
        self._said = len(self.lines)  # of the lines, so many came before the last sentence of the log
        self._token_flops = flops_per_token(config)
        self._memory = memory_bytes()
        self._clock = time.perf_counter()

    @property
    def are_written(self) -> bool:
        """Whether this process writes them."""
        return self._writer is not None

    @property
    def last(self) -> dict[str, Any]:
        """The line of the last recorded step."""
        return self.lines[-1]

    @property
    def status(self) -> str:
        """The last recorded step in a few words."""
        return f"loss {self.last['loss']:.3f}  {self.last['tokens_per_s']:,.0f} tokens/s"

    def record(
        self, pending: PendingStep, validation_loss: float | None = None, validated: Mapping[str, float] = NOTHING
    ) -> None:
        """Waits for a step and writes its line. `validated` is what else was measured on the validation data.

        Raises HarnessError if the updates of too many steps in a row were skipped.
        """
        loss, rate, norm, skipped = (float(value) for value in pending.metrics[:4])
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped > self._skipped else 0
        if self._was_finite and not math.isfinite(loss):
            self._was_finite = False
            self.log(f"step {pending.step}: the loss is {loss}, the first one that is not finite.")
        self._skipped = int(skipped)
        now, targets = time.perf_counter(), int(pending.targets)
        tokens_per_s = targets / (now - self._clock)
        self._tokens += targets
        self._clock = now
        mfu = utilization(tokens_per_s * self._token_flops, self.session.config.dtype, self.session.mesh.size)
        line = {
            "step": pending.step,
            "loss": loss,
            "learning_rate": rate,
            "gradient_norm": None if math.isnan(norm) and self.session.pieces is not None else norm,
            "skipped": self._skipped,
            "tokens": self._tokens,
            "validation_loss": validation_loss,
            "validation_bits_per_byte": self.session.bits_per_byte(validation_loss),
            **{f"validation_{name}": value for name, value in validated.items()},
            **pending.more,
            **{name: float(value) for name, value in pending.metrics.more.items()},
            "time": round(time.time(), 3),
            "tokens_per_s": round(tokens_per_s, 1),
            "mfu": None if mfu is None else round(mfu, 4),
            "memory": self._memory,
        }
        self.lines.append(line)
        if self._writer is not None:
            self._writer.write(line)
        if self.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise HarnessError(
                f"The gradients of {MAX_SKIPPED_IN_A_ROW} steps in a row, up to step {pending.step}, were not finite, "
                f"so their updates were skipped. Lower learning_rate={self.session.config.learning_rate}, or increase "
                "warmup_steps. The last checkpoint is from an earlier step."
            )

    @contextlib.contextmanager
    def untimed(self) -> Iterator[None]:
        """Leaves the time spent inside out of the step times."""
        started = time.perf_counter()
        yield
        self._clock += time.perf_counter() - started

    def measure_memory(self) -> None:
        """Later lines have the present use of memory."""
        self._memory = memory_bytes()

    def speed(self) -> float:
        """The median of tokens/s since the last call. One step says little, since those before a validation are waited
        for."""
        speed = statistics.median(line["tokens_per_s"] for line in self.lines[self._said :])
        self._said = len(self.lines)
        return speed

    def is_out_of_patience(self) -> bool:
        """Whether the last `patience` validation losses were no better than one before them. The first process has them
        all."""
        patience = self.session.config.patience
        if not patience:
            return False

        def decide() -> bool:
            found = self._validation_losses()
            return len(found) > patience and min(found[-patience:]) >= min(found[:-patience])

        return processes.decided_by_first(decide)

    def is_new_best(self) -> bool:
        """Whether the validation loss of the last step is the lowest so far. The first process has them all."""

        def decide() -> bool:
            last, found = self.last["validation_loss"], self._validation_losses()
            return last is not None and math.isfinite(last) and last < min(found[:-1], default=math.inf)

        return processes.decided_by_first(decide)

    def _validation_losses(self) -> list[float]:
        losses = [line["validation_loss"] for line in self.lines if "validation_loss" in line]
        return [loss for loss in losses if loss is not None and not math.isnan(loss)]

    def sync(self) -> None:
        """Waits until all lines are on disk."""
        if self._writer is not None:
            self._writer.sync()

    def close(self) -> None:
        """Closes metrics.jsonl."""
        if self._writer is not None:
            self._writer.close()
