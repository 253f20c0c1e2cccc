"""The training loop: steps, metrics, validation, checkpoints, and exact resume."""

import collections
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from commandline.files import replace
from commandline.progress import progress
from commandline.text import counted
from harness import processes
from harness.data.prepared import own_prompt
from harness.errors import HarnessError
from harness.pieces.load import attribute_errors_to
from harness.run import charts, own_code
from harness.run.baselines import add_baselines, read_baselines
from harness.run.batch_source import check_prompts, open_feed
from harness.run.epochs import long_past_best, most, on_epochs
from harness.run.folder import DataRecord
from harness.run.hooks import Aside, Hook, Hooks
from harness.run.metrics import Metrics, PendingStep
from harness.run.run_session import Log, Session, sample_text
from harness.run.signals import stop_signals
from harness.run.state import completed, initial_state
from harness.run.trackers import require_installed, tracking
from harness.training.checkpoint import Checkpointer, Restored, is_good, last_good_step
from harness.training.sharding import local_mesh

RUN_AHEAD = 2  # steps dispatched to the device before the metrics of the first are read

OnStep = Callable[[int, dict[str, Any]], None]


def train(session: Session, *, log: Log, quiet: bool = False, on_step: OnStep | None = None) -> bool:
    """Trains to the last step, from the latest checkpoint if there is one. Returns False if a signal stopped it
    earlier.

    With `on_step`, calls it with the number of steps and the last line of metrics, instead of showing progress and
    writing charts and samples. Raises HarnessError if the gradients of many steps in a row are not finite.
    """
    run, config = session.run, session.config
    require_installed(config)
    # Before the folder is made: a run that cannot start leaves none. One process tokenizes, and the others read what it
    # wrote.
    data = processes.first_alone(lambda: session.prepared)
    with contextlib.ExitStack() as locks, jax.set_mesh(session.mesh):

        def lock() -> bool:
            existed = run.config_file.exists()
            if config.reward and not existed:
                check_prompts(session)  # before the folder is made, for the same reason
            locks.enter_context(run.locked())
            return existed

        def create() -> tuple[bool, bool]:
            if base is not None:  # before the config: a run whose config is there has its record
                run.record_base(base)
            resumed = run.create_or_check(config)
            run.record_data(DataRecord(data.name, data.key, own_prompt(config, data)))
            return resumed, session.pieces is not None and session.pieces.copy_to(run.pieces)

        exists = processes.decided_by_first(lock)
        # Before the config is written, for the same reason.
        start, base = (None, None) if exists else initial_state(session)
        resumed, has_copied_pieces = processes.decided_by_first(create)
        # What the command named, in each process: they may have caches of their own.
        if has_copied_pieces:
            own_code.trust_pieces(run)
        if not resumed:
            own_code.trust_reward(run, config)
        checkpointer = session.checkpointer()
        try:
            restored = checkpointer.restore_latest(session.functions.abstract_state, log) if resumed else None
            if restored is not None:
                restored = restored._replace(state=completed(session, restored.state))
            elif start is None:
                start, _ = initial_state(session)
            loop = _Loop(session, checkpointer, restored, start, log, quiet, on_step)
            trackers = tracking(run, config, log) if processes.is_first() else contextlib.nullcontext()
            with contextlib.closing(loop), trackers:
                return loop.run()
        finally:
            checkpointer.close()


class _Loop:
    """One execution of a run."""

    def __init__(
        self,
        session: Session,
        checkpointer: Checkpointer,
        restored: Restored | None,
        start: Any,
        log: Log,
        quiet: bool,
        on_step: OnStep | None,
    ):
        self.session, self.checkpointer, self.log, self.on_step = session, checkpointer, log, on_step
        self.quiet = quiet or on_step is not None
        config, run = session.config, session.run
        self.feed = open_feed(session)
        self.step = 0
        if restored is not None:
            self.step, self.state = restored.step, restored.state
            self.feed.set_state(restored.data)
            more = f" `harness resume {run.typed} --steps {2 * config.steps}` adds steps." * (self.step >= config.steps)
            log(f"Run {run.folder}: resuming at step {self.step} of {config.steps}.{more}")
        else:
            self.state = start
            devices = counted(session.mesh.size, "device")
            log(f"Run {run.folder}: {_sizes(session, self.state)}, {config.steps} steps on {devices}.")
            if sentence := on_epochs(session):
                log(sentence)
        self.metrics = Metrics(session, self.step, log)
        self.pending: collections.deque[PendingStep] = collections.deque()
        self.saved = self.step
        self.aside = Aside(local_mesh(session.mesh), log)
        self.out_of_patience = self.metrics.is_out_of_patience()
        self.said_best_is_past = False
        every = config.eval_every
        hooks = [
            Hook(every, self._validate),
            Hook(config.checkpoint_every or every, self._save, config.checkpoint_minutes),
            Hook(every, self._save_best),
        ]
        if self.metrics.are_written and on_step is None:
            hooks += [Hook(config.chart_every or every, self._draw), Hook(every, self._say)]
        if on_step is None:
            hooks.append(Hook(config.sample_every or every, self._sample))
        self.hooks = Hooks(*hooks)

    def close(self) -> None:
        """Ends the thread, and closes metrics.jsonl."""
        self.aside.close()
        self.metrics.close()

    def run(self) -> bool:
        """Runs to the last step or to a signal. Returns whether the last step was reached."""
        config, recorded = self.session.config, self.step
        title = f"training {self.session.run.folder.name}"
        with (
            _stopping() as stop,
            progress(title, unit="steps", total=config.steps, done=self.step, quiet=self.quiet) as advance,
        ):
            stopped = False
            # Of pairs of answers, that of the base is ln 2, whatever the base is.
            if not self.step and config.base and not config.has_pairs and self.on_step is None:
                self._validate_base()
            if not self.step and self.on_step is None:
                self._sample()  # what the later ones are compared with
            while self.step < self.last_step and not stopped:
                self._dispatch()
                if len(self.pending) > RUN_AHEAD:
                    self.metrics.record(self.pending.popleft())
                self.hooks.run_due(self.step, lambda: self.last_step)
                if (finished := self.step - len(self.pending)) > recorded:
                    advance(
                        finished - recorded,
                        "  ".join(filter(None, (most(self.session, finished), self.metrics.status))),
                    )
                    if self.on_step:
                        self.on_step(self.step, self.metrics.last)
                    recorded = finished
                stopped = stop(self.step)
            if self.saved != self.step:
                self._save()
            self.aside.wait()
            self.checkpointer.wait()
        if self.out_of_patience:
            self.log(
                f"Stopped at step {self.step} of {config.steps}: none of the last {config.patience} validation losses "
                "was a new best. To train on, resume with another --set patience."
            )
        elif stopped and self.step < config.steps:
            self.log(
                f"Stopped at step {self.step} of {config.steps}; checkpoint saved. Rerun the same command to resume."
            )
        self._check_finite()
        return self.step >= self.last_step

    @property
    def last_step(self) -> int:
        """The step after which training ends: the present one if patience has run out."""
        return self.step if self.out_of_patience else self.session.config.steps

    def _dispatch(self) -> None:
        """Sends the next step to the device, and asks for its metrics."""
        batch = self.feed.next(self.state)
        step = functools.partial(self.session.functions.train_step, self.state, batch.arrays)
        self.state, metrics = attribute_errors_to(self.session.pieces, step)
        self.step += 1
        for value in jax.tree.leaves(metrics):
            value.copy_to_host_async()
        self.pending.append(PendingStep(self.step, batch.targets, metrics, batch.metrics))

    def _check_finite(self) -> None:
        """Raises HarnessError if the checkpoint that was saved last is not good."""
        losses = self.checkpointer.losses()
        if not losses or is_good(losses[max(losses)]):
            return
        good = last_good_step(losses)
        kept = f"The last good checkpoint is that of step {good}" if good else "There is no good checkpoint"
        raise HarnessError(
            f"The loss of step {max(losses)} is {losses[max(losses)]}. {kept}. Rerun the same command to go back to "
            f"it, or start another run with a learning_rate below {self.session.config.learning_rate}."
        )

    def _drain(self, validate: Callable[[], tuple[float | None, dict[str, float]]]) -> None:
        """Waits for the device and records every pending step, the last one with a validation loss."""
        self.metrics.measure_memory()
        while self.pending:
            pending = self.pending.popleft()
            jax.block_until_ready(pending.metrics)
            with self.metrics.untimed():
                loss, more = (None, {}) if self.pending else validate()
            self.metrics.record(pending, loss, more)
        self.metrics.sync()  # no checkpoint is ahead of the metrics

    def _validate_base(self) -> None:
        """Reports and keeps the validation loss of the base, before the first step."""
        loss = self.session.validate(self.state)
        self.log(f"step 0: validation {loss:.4f}, which is that of the base")
        if self.metrics.are_written:
            add_baselines(self.session.run, {"base": loss})

    def _validate(self) -> None:
        self._drain(lambda: self.session.measure(self.state))
        self.out_of_patience = self.metrics.is_out_of_patience()

    def _save(self) -> None:
        """Saves a checkpoint with the validation loss of its step, if there is one."""
        self._drain(lambda: (None, {}))
        last = self.metrics.last
        loss = last["validation_loss"]
        # Without a validation, the loss of the step itself says whether its state is good, unless its update was
        # skipped.
        is_bad = loss is None and not self.metrics.skipped_in_a_row and not is_good(last["loss"])
        with self.metrics.untimed():
            self.checkpointer.save(self.step, self.state, self.feed.get_state(), last["loss"] if is_bad else loss)
        self.saved = self.step

    def _save_best(self) -> None:
        """Saves a checkpoint of a new best validation loss, whatever the interval of the others: it is the one that is
        sampled, exported and tuned. (The best of reinforcement learning is its last.)"""
        if self.saved != self.step and not self.session.config.reward and self.metrics.is_new_best():
            self._save()

    def _draw(self) -> None:
        run, entries = self.session.run, list(self.metrics.lines)

        def draw() -> None:
            if ngrams := self.session.ngrams:
                add_baselines(run, ngrams._asdict())
            charts.draw(run.folder, entries, run.folder.name, read_baselines(run))

        self.aside.run("charts", draw)

    def _sample(self) -> None:
        graph, parameters = nnx.split(self.session.functions.model(self.state))
        copied = _copied(parameters, self.session.mesh)  # the next step reuses the memory of the state
        if not processes.is_first():
            return
        model = nnx.merge(graph, copied)
        file = self.session.run.sample_file(self.step)
        self.aside.run("sample", lambda: replace(file, sample_text(self.session, model) + "\n"))

    def _say(self) -> None:
        """Reports the last step in one line."""
        last, speed = self.metrics.last, self.metrics.speed()
        parts = (
            f"loss {last['loss']:.4f}, validation {last['validation_loss']:.4f}",
            most(self.session, self.step),
            f"{speed:,.0f} tokens/s",
        )
        self.log(f"step {self.step}: {', '.join(filter(None, parts))}")
        best = None if self.said_best_is_past else long_past_best(self.session, self.metrics.lines)
        if best is None or self.step == self.last_step:
            return
        self.said_best_is_past = True
        self.log(
            f"The best validation loss is still {best['validation_loss']:.4f}, that of step {best['step']}: what the "
            "model learns now is this text by heart. Ctrl-C stops the run. Samples and exports use the best checkpoint."
        )


def _copied(tree: Any, mesh: Mesh) -> Any:
    """A copy of parameters. With several processes, whole ones on a device of this process: all must call this
    alike."""
    if jax.process_count() == 1:
        return _copy(tree)
    whole = _gather(mesh)(tree)
    return jax.tree.map(lambda array: array.addressable_data(0), whole)


@jax.jit
def _copy(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


@functools.lru_cache(maxsize=8)
def _gather(mesh: Mesh) -> Any:
    return jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=NamedSharding(mesh, PartitionSpec()))


def _sizes(session: Session, state: Any) -> str:
    """The number of parameters, and of those that are trained if not all are."""
    model = session.functions.model(state)
    every, trained = (
        sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, kind))) for kind in (nnx.Param, nnx.LoRAParam)
    )
    return f"{trained:,} of {every:,} parameters trained" if session.config.lora_rank else f"{every:,} parameters"


@contextlib.contextmanager
def _stopping() -> Iterator[Callable[[int], bool]]:
    """Yields a function that says after each step whether a signal asks to stop. Several processes stop after the same
    step.

    A second signal to a single process raises KeyboardInterrupt: no checkpoint is saved.
    """
    if jax.process_count() > 1:
        with processes.preemption() as reached:
            yield reached
        return
    with stop_signals() as received:
        yield lambda step: bool(received)
