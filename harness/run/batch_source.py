"""The batches that train steps take, already on the devices. Their position is saved in checkpoints."""

import functools
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from harness.data.batches import train_batches
from harness.pieces.assemble import make_batches
from harness.pieces.load import Pieces, attribute_errors_to
from harness.run.own_code import require_reward
from harness.run.preferences import Reference
from harness.run.rewards import split_file
from harness.run.rollouts import RolloutFeed
from harness.run.run_session import Session
from harness.run.tasks import Task, open_task
from harness.training.sharding import put_batch
from harness.training.train_step import Batch


@runtime_checkable
class Feed(Protocol):
    """An endless source of batches, whose state is saved in checkpoints."""

    def next(self, state: Any) -> Batch: ...
    def get_state(self) -> dict[str, Any]: ...
    def set_state(self, state: dict[str, Any]) -> None: ...


class DataFeed:
    """Rows of the data, in the order of their iterator."""

    def __init__(
        self,
        rows: Any,
        mesh: jax.sharding.Mesh,
        pieces: Pieces | None,
        shard_batch: Any = None,
        reference: Reference | None = None,
    ):
        self._rows, self._mesh, self._pieces, self._shard_batch = rows, mesh, pieces, shard_batch
        self._reference = reference
        self.get_state = rows.get_state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues after the batches that led to `state`."""
        attribute_errors_to(self._pieces, functools.partial(self._rows.set_state, state))

    def next(self, state: Any) -> Batch:
        """The next batch. Does not depend on what is trained of the state of the model."""
        rows = attribute_errors_to(self._pieces, functools.partial(next, self._rows))
        if self._reference:
            return Batch(self._reference.pairs(state, rows), self._targets(rows), {})
        return Batch(self._put(rows), self._targets(rows), {})

    def _put(self, rows: Any) -> jax.Array:
        """The rows on the devices, by the piece `shard_batch` if there is one."""
        if self._shard_batch is None:
            return put_batch(rows, self._mesh)
        return attribute_errors_to(self._pieces, lambda: self._shard_batch(jnp.asarray(rows), self._mesh))

    def _targets(self, rows: Any) -> int | jax.Array:
        if jax.process_count() == 1:
            return int((rows[..., 1:] >= 0).sum())
        return _count_targets(put_batch(rows, self._mesh))


@jax.jit
def _count_targets(ids_BT: jax.Array) -> jax.Array:
    return jnp.sum(ids_BT[..., 1:] >= 0)


def open_feed(session: Session) -> Feed:
    """The batches of this process: rollouts, or the data by the pieces `make_loader` and `shard_batch` if there are
    any."""
    config, pieces = session.config, session.pieces
    if config.reward:
        return RolloutFeed(session, _task(session))
    process, processes = jax.process_index(), jax.process_count()
    if pieces is None or config.has_pairs or "make_loader" not in pieces.by_name:
        rows = train_batches(config, session.rows, process, processes)
    else:
        rows = make_batches(config, pieces, session.rows, process, processes)
    shard_batch = pieces.adapted("shard_batch", config) if pieces is not None and processes == 1 else None
    return DataFeed(rows, session.mesh, pieces, shard_batch, session.reference)


def check_prompts(session: Session) -> None:
    """Raises UsageError or PieceError if no prompts can be drawn."""
    config = session.config
    _task(session).draw(np.random.default_rng(config.seed), config.prompts)


def _task(session: Session) -> Task:
    """What is reinforced. The run keeps a copy of the file that it reads. Raises UsageError if its code is not
    trusted."""
    reward, run = session.config.reward, session.run
    if run.config_file.exists():  # else the command names the file
        require_reward(run, session.config)
    if found := split_file(reward):
        before, file, after = found
        reward = f"{before}{run.copy_of(file, run.reward_file(file))}{after}"
    stories = lambda: session.prepared.train  # noqa: E731
    return open_task(reward, session.config, session.tokenizer, session.template, stories, session.verify)
