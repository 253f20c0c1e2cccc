"""Checkpoints: Orbax, asynchronous, the last two and the best kept, each array's checksum beside them.

Arrays are stored under dotted names (`0.blocks.ff1.kernel`: 0 is the model, 1 the optimizer). Orbax moves a checkpoint into
place when it is whole, so a save that was cut off leaves nothing that could be taken for one.
"""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as managers

from harness.errors import HarnessError
from harness.training.sharding import path_names

KEEP_LAST = 2


class Restored(NamedTuple):
    """What a checkpoint holds."""

    step: int
    state: Any
    data: dict[str, Any]  # of Grain's iterator


@runtime_checkable
class Keeper(Protocol):
    """What keeps the checkpoints of a run: ours, or one of the workspace's pieces."""

    def steps(self) -> list[int]: ...
    def best(self) -> int | None: ...
    def save(self, step: int, state: Any, data: dict[str, Any], validation_loss: float | None) -> None: ...
    def wait(self) -> None: ...
    def close(self) -> None: ...
    def restore(self, step: int, abstract: Any, *, only: str = "") -> Restored: ...
    def restore_latest(self, abstract: Any, say: Any) -> Restored | None: ...


def best_step(losses: Mapping[int, float | None]) -> int | None:
    """The step with the least validation loss; the last if none has one, None if there is no step."""
    known = {step: loss for step, loss in losses.items() if loss is not None}
    return min(known, key=lambda step: known[step]) if known else max(losses, default=None)


def dotted(tree: Any) -> dict[str, Any]:
    """The leaves of a state by dotted name."""
    return {".".join(path_names(path)): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


@jax.jit
def checksums(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """A number for each array that changes with any one of its bits, and with the order; the same on any mesh, being
    whole-number sums."""

    def checksum(array: jax.Array) -> jax.Array:
        unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[array.dtype.itemsize]
        bits = (array if array.dtype == bool else jax.lax.bitcast_convert_type(array, unsigned)).astype(jnp.uint32)
        place = jnp.zeros(array.shape, jnp.uint32)
        for axis, size in enumerate(array.shape):
            place = place * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, array.shape, axis)
        mixed = (bits ^ (place * jnp.uint32(0x9E3779B1))) * jnp.uint32(
            0x85EBCA6B
        )  # odd factors: each step can be undone
        return jnp.sum(mixed ^ (mixed >> 15), dtype=jnp.uint32)

    return jax.tree.map(checksum, arrays)


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, *, read_only: bool = False):
        self.folder = folder.absolute()
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # what matters of it becomes a sentence of ours
        keep = [
            managers.LatestN(KEEP_LAST),
            managers.BestN(get_metric_fn=_minus_loss, n=1, keep_checkpoints_without_metrics=False),
        ]
        options = ocp.CheckpointManagerOptions(
            preservation_policy=managers.AnyPreservationPolicy(keep),
            best_fn=_minus_loss,  # without it no metrics are written
            cleanup_tmp_directories=not read_only,
            read_only=read_only,
            create=not read_only,
        )
        self._manager = ocp.CheckpointManager(self.folder, options=options, item_names=("state", "data", "checksums"))
        self._saving: int | None = None

    def steps(self) -> list[int]:
        """Of which steps there are checkpoints, first to last."""
        return sorted(self._manager.all_steps())

    def best(self) -> int | None:
        """The step with the least validation loss among the checkpoints kept; the last if none has one."""
        return best_step({step: (self._manager.metrics(step) or {}).get("validation_loss") for step in self.steps()})

    def save(self, step: int, state: Any, data: dict[str, Any], validation_loss: float | None) -> None:
        """Begins to save; the state may be donated as soon as this returns. Raises HarnessError if the save before this one
        failed."""
        arrays = dotted(state)
        sums = {name: int(value) for name, value in jax.device_get(checksums(arrays)).items()}
        with self._failing():
            self._saving = step
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(arrays), data=ocp.args.JsonSave(data), checksums=ocp.args.JsonSave(sums)
                ),
                metrics=None if validation_loss is None else {"validation_loss": validation_loss},
                force=True,
            )

    def wait(self) -> None:
        """Returns when the last save is on disk. Raises HarnessError if it failed."""
        with self._failing():
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Ends the threads that save."""
        self._manager.close()

    def restore(self, step: int, abstract: Any, *, only: str = "") -> Restored:
        """The checkpoint of `step`, laid out as `abstract` says; `only` restores the arrays whose name begins so.

        Raises ValueError, in words, if it cannot be read or is not what was saved.
        """
        wanted = {name: leaf for name, leaf in dotted(abstract).items() if name.startswith(only)}
        try:
            arguments = ocp.args.PyTreeRestore(
                wanted, restore_args=ocp.checkpoint_utils.construct_restore_args(wanted), partial_restore=bool(only)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self._manager.restore(
                    step,
                    args=ocp.args.Composite(
                        state=arguments, data=ocp.args.JsonRestore(), checksums=ocp.args.JsonRestore()
                    ),
                )
        except (MemoryError, jax.errors.JaxRuntimeError):  # this machine is too small for it: the file may be whole
            raise
        except Exception as error:  # whatever the storage raises for a damaged file
            raise ValueError(f"it cannot be read ({_first_line(error)})") from error
        arrays = found["state"]
        for name, value in jax.device_get(checksums(arrays)).items():
            if int(value) != found["checksums"].get(name):
                raise ValueError(f"{name} is not what was saved")
        leaves, structure = jax.tree.flatten(abstract)
        filled = [arrays.get(name, leaf) for name, leaf in zip(dotted(abstract), leaves, strict=True)]
        return Restored(step, jax.tree.unflatten(structure, filled), found["data"])

    def restore_latest(self, abstract: Any, say: Any) -> Restored | None:
        """The latest checkpoint that is whole, or None if there was none at all. Damaged ones are named through `say` and
        set aside.

        Raises HarnessError if all of them are damaged.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                return self.restore(step, abstract)
            except ValueError as error:
                aside = self._set_aside(step)
                say(
                    f"The checkpoint of step {step} is damaged: {error}. It was moved to {aside}; the one before it is tried."
                )
        if steps:
            raise HarnessError(f"No checkpoint in {self.folder} could be restored. Name another run to begin anew.")
        return None

    def _set_aside(self, step: int) -> Path:
        aside = self.folder.parent / "damaged"
        aside.mkdir(exist_ok=True)
        target = aside / f"{step}-{len(list(aside.iterdir()))}"
        if jax.process_index() == 0:
            os.replace(self.folder / str(step), target)
        self._manager.reload()
        return target

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Turns what the storage raises during a save into a sentence that says which checkpoints there are."""
        begun = self._saving
        try:
            yield
        except Exception as error:
            whole = [int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()]
            intact = f"The one of step {max(whole)} is whole." if whole else "There is none yet."
            raise HarnessError(
                f"The checkpoint of step {begun or self._saving} could not be saved in {self.folder}: "
                f"{_first_line(error)}. {intact} "
                "Make room and run the same command to go on."
            ) from error


def _minus_loss(metrics: Any) -> float:
    return -metrics["validation_loss"] if metrics else -np.inf


def _first_line(error: BaseException) -> str:
    text = str(error)
    for known in (
        "No space left on device",
        "Disk quota exceeded",
        "File too large",
        "Permission denied",
        "Read-only file system",
    ):
        if known in text:
            return known
    return (text.splitlines() or [type(error).__name__])[0][:200].rstrip(".")
