"""Checkpoints by Orbax: asynchronous, with a checksum for each array. The last ones, the best and the last good one are
kept.

A checkpoint is good unless its loss is known and not finite.

Arrays are stored under dotted names such as `0.blocks.ff1.kernel`, where 0 is the model and 1 the optimizer. Orbax
moves a checkpoint into place once it is complete, so an interrupted save leaves no checkpoint. Typed PRNG keys, such as
those of dropout layers, are stored as their key data.
"""

import contextlib
import functools
import hashlib
import logging
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath  # type: ignore[import-untyped]
from orbax.checkpoint import checkpoint_managers as managers

from harness.errors import HarnessError
from harness.processes import decided_by_first
from harness.training.sharding import by_dotted_name

JSON_CHECKSUMS = "checksums"  # of checkpoints that 0.2.0 wrote


class Restored(NamedTuple):
    """The content of a checkpoint."""

    step: int
    state: Any
    data: dict[str, Any]  # the state of the data iterator


@runtime_checkable
class Checkpointer(Protocol):
    """Saves and restores the checkpoints of a run: `OrbaxCheckpointer`, or one made of the learner's pieces."""

    def losses(self) -> dict[int, float | None]: ...
    def save(self, step: int, state: Any, data: dict[str, Any], validation_loss: float | None) -> None: ...
    def wait(self) -> None: ...
    def close(self) -> None: ...
    def restore(self, step: int, abstract: Any, *, only: str = "") -> Restored: ...
    def restore_latest(self, abstract: Any, log: Any) -> Restored | None: ...


def is_good(loss: float | None) -> bool:
    """Whether a checkpoint with this loss is good. None is an unknown loss."""
    return loss is None or math.isfinite(loss)


def best_step(losses: Mapping[int, float | None]) -> int | None:
    """The step with the lowest finite loss. Without one, the last good step or else the last step; None without any
    step."""
    validated = {step: loss for step, loss in losses.items() if loss is not None and math.isfinite(loss)}
    last = last_good_step(losses)
    return min(validated, key=lambda step: validated[step]) if validated else last or max(losses, default=None)


def last_good_step(losses: Mapping[int, float | None]) -> int | None:
    """The last good step, if there is one."""
    return max((step for step, loss in losses.items() if is_good(loss)), default=None)


def kept_steps(losses: Mapping[int, float | None], last: int) -> set[int]:
    """The steps whose checkpoints are kept: the `last` ones, the best and the last good one."""
    return {*sorted(losses)[-last:], best_step(losses) or 0, last_good_step(losses) or 0} & set(losses)


def drop_bad(folder: Path | epath.Path, losses: Mapping[int, float | None], log: Any) -> None:
    """Moves the checkpoints after the last good one out of the way, and says so. Raises HarnessError if there is no
    good one."""
    good = last_good_step(losses)
    bad = [step for step in sorted(losses, reverse=True) if step > (good or 0)]
    if bad and good is None:
        raise HarnessError(
            f"The loss of every checkpoint in {folder} is not finite. Start a new run with --run NAME and other "
            "settings."
        )
    if bad:
        targets = [set_aside(folder, step) for step in bad]
        log(
            f"The loss of step {bad[-1]} was not finite: going back to the checkpoint of step {good}. "
            f"What came after it is in {targets[0].parent}."
        )


def set_aside(folder: Path | epath.Path, step: int) -> Path | epath.Path:
    """Moves the checkpoint of a step to the folder `damaged/` beside the checkpoints. Returns its new path."""
    damaged = folder.parent / "damaged"
    damaged.mkdir(parents=True, exist_ok=True)
    target = damaged / f"{step}-{len(list(damaged.iterdir()))}"
    (folder / str(step)).rename(target)
    return target


def is_abstract(leaf: Any) -> bool:
    """Whether a leaf of a restored state was not restored."""
    return isinstance(leaf, jax.ShapeDtypeStruct)


def is_key(array: Any) -> bool:
    """Whether an array, or its abstract value, consists of typed PRNG keys."""
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def key_data(array: Any) -> Any:
    """The array to store: the uint32 data of typed PRNG keys, any other array unchanged. Accepts abstract values."""
    if not is_key(array):
        return array
    if isinstance(array, jax.ShapeDtypeStruct):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(array.shape, array.dtype))
        return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=array.sharding)
    return jax.random.key_data(array)


def with_keys(stored: Any, like: Any) -> Any:
    """The reverse of `key_data`: typed PRNG keys where `like` has them."""
    return jax.random.wrap_key_data(stored) if is_key(like) else stored


@jax.jit
def checksums(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """A checksum for each array that depends on every bit and on the order of the elements.

    It is a sum of integers, so it is the same on any mesh.
    """

    def checksum(array: jax.Array) -> jax.Array:
        unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[array.dtype.itemsize]
        bits = (array if array.dtype == bool else jax.lax.bitcast_convert_type(array, unsigned)).astype(jnp.uint32)
        index = jnp.zeros(array.shape, jnp.uint32)
        for axis, size in enumerate(array.shape):
            index = index * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, array.shape, axis)
        # Odd factors make each multiplication invertible, so no bit is lost.
        mixed = (bits ^ (index * jnp.uint32(0x9E3779B1))) * jnp.uint32(0x85EBCA6B)
        return jnp.sum(mixed ^ (mixed >> 15), dtype=jnp.uint32)

    return jax.tree.map(checksum, arrays)


def digest(arrays: dict[str, jax.Array]) -> str:
    """A digest of named arrays, the same on any mesh."""
    return digest_of(checksums({name: key_data(array) for name, array in arrays.items()}))


def digest_of(sums: Mapping[str, Any]) -> str:
    """The digest of the arrays that have these checksums."""
    values = jax.device_get(dict(sums))
    return hashlib.sha256(repr(sorted((name, int(value)) for name, value in values.items())).encode()).hexdigest()[:16]


class OrbaxCheckpointer:
    """Saves and restores the checkpoints of one run with Orbax."""

    def __init__(
        self,
        folder: Path | epath.Path,
        *,
        keep: int = 2,
        read_only: bool = False,
        left_out: frozenset[str] = frozenset(),
    ):
        """`left_out` are the dotted names of arrays that are not saved, and stay abstract when a state is restored."""
        self.folder, self.left_out = folder.absolute() if isinstance(folder, Path) else folder, left_out
        logging.getLogger("absl").setLevel(logging.CRITICAL)  # its errors are raised again as HarnessError
        sys.unraisablehook = _report_unraisable
        options = ocp.CheckpointManagerOptions(
            preservation_policy=_Kept(keep),
            best_fn=_minus_loss,  # required for metrics to be written
            cleanup_tmp_directories=not read_only,
            read_only=read_only,
            create=not read_only,
        )
        self._manager = ocp.CheckpointManager(
            self.folder, options=options, item_names=("state", "data", "sums", JSON_CHECKSUMS)
        )
        self._saving: int | None = None

    def losses(self) -> dict[int, float | None]:
        """The steps that have a checkpoint, in order, with their validation losses."""
        return {step: _loss(self._manager.metrics(step)) for step in sorted(self._manager.all_steps())}

    def save(self, step: int, state: Any, data: dict[str, Any], validation_loss: float | None) -> None:
        """Starts to save. The state may be donated as soon as this returns.

        Raises HarnessError if this save cannot start or the previous one failed.
        """
        arrays = {name: key_data(leaf) for name, leaf in by_dotted_name(state).items() if name not in self.left_out}
        sums = checksums(arrays)  # read in the background, like the arrays
        with self._save_errors():
            self._saving = step
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(arrays), data=ocp.args.JsonSave(data), sums=ocp.args.PyTreeSave(sums)
                ),
                metrics=None if validation_loss is None else {"validation_loss": validation_loss},
                force=True,
            )

    def wait(self) -> None:
        """Waits until the last save is on disk. Raises HarnessError if it failed."""
        with self._save_errors():
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Stops the threads that save."""
        self._manager.close()

    def restore(self, step: int, abstract: Any, *, only: str = "") -> Restored:
        """The checkpoint of `step`, with the shardings of `abstract`. `only` is a prefix of the names to restore.

        Raises ValueError, with a readable reason, if it cannot be read or a checksum does not match.
        """
        leaves = by_dotted_name(abstract)
        names = [name for name in leaves if name.startswith(only) and name not in self.left_out]
        wanted = {name: key_data(leaves[name]) for name in names}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                restored = self._manager.restore(step, args=self._arguments(step, wanted, partial=bool(only)))
        except (MemoryError, jax.errors.JaxRuntimeError):  # out of memory does not mean that the file is corrupt
            raise
        except Exception as error:  # Orbax and its storage raise many types for corrupt files
            raise ValueError(f"it cannot be read ({_first_line(error)})") from error
        arrays, sums = restored["state"], restored.get("sums") or restored[JSON_CHECKSUMS]
        if missing := [
            name for name, array in arrays.items() if is_abstract(array)
        ]:  # of a partial one, Orbax says nothing
            raise ValueError(f"it has no array {missing[0]}")
        for name, value in jax.device_get(checksums(arrays)).items():
            if name not in sums or int(value) != int(sums[name]):
                raise ValueError(f"the checksum of {name} does not match")
        filled = [with_keys(arrays[name], leaf) if name in arrays else leaf for name, leaf in leaves.items()]
        return Restored(step, jax.tree.unflatten(jax.tree.structure(abstract), filled), restored["data"])

    def _arguments(self, step: int, wanted: dict[str, Any], *, partial: bool) -> Any:
        """What Orbax restores: the arrays that are wanted, the state of the data, and the checksums."""
        arrays = ocp.args.PyTreeRestore(
            wanted, restore_args=ocp.checkpoint_utils.construct_restore_args(wanted), partial_restore=partial
        )
        if (self.folder / str(step) / JSON_CHECKSUMS).exists():
            sums = {JSON_CHECKSUMS: ocp.args.JsonRestore()}
        else:
            on_host = dict.fromkeys(wanted, ocp.RestoreArgs(restore_type=np.ndarray))
            sums = {"sums": ocp.args.PyTreeRestore(wanted, restore_args=on_host, partial_restore=partial)}
        return ocp.args.Composite(state=arrays, data=ocp.args.JsonRestore(), **sums)

    def restore_latest(self, abstract: Any, log: Any) -> Restored | None:
        """The latest good and intact checkpoint, or None if there are no checkpoints.

        Moves later ones and corrupt ones out of the way and reports them through `log`. Raises HarnessError if none is
        left.
        """
        losses = self.losses()
        decided_by_first(lambda: drop_bad(self.folder, losses, log))
        self._manager.reload()
        steps = [*self.losses()]
        for step in reversed(steps):
            try:
                return self.restore(step, abstract)
            except ValueError as error:
                target = decided_by_first(functools.partial(lambda step: str(set_aside(self.folder, step)), step))
                self._manager.reload()
                log(
                    f"The checkpoint of step {step} is corrupt ({error}); moved it to {target}, trying the previous "
                    "one."
                )
        if steps:
            raise HarnessError(f"No checkpoint in {self.folder} could be restored. Start a new run with --run NAME.")
        return None

    @contextlib.contextmanager
    def _save_errors(self) -> Iterator[None]:
        """Turns errors of the storage into a HarnessError that says which checkpoint is intact."""
        previous = self._saving
        try:
            yield
        except Exception as error:
            complete = [int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()]
            intact = f"The checkpoint of step {max(complete)} is intact." if complete else "There is no earlier one."
            raise HarnessError(
                f"The checkpoint of step {previous or self._saving} could not be saved in {self.folder}: "
                f"{_first_line(error)}. {intact} Free some disk space, then rerun the command to resume."
            ) from error


_report_others = sys.unraisablehook


def _report_unraisable(unraisable: Any) -> None:
    """Ignores the errors of writes that TensorStore still reports to Orbax's event loop after the first one has closed
    it."""
    if str(unraisable.exc_value) != "Event loop is closed":
        _report_others(unraisable)


class _Kept(managers.PreservationPolicy):  # type: ignore[misc]
    """Orbax's question which checkpoints are kept, answered by `kept_steps`."""

    def __init__(self, last: int):
        self._last = last

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        kept = kept_steps({info.step: _loss(info.metrics) for info in checkpoints}, self._last)
        return [info.step in kept for info in checkpoints]


def _loss(metrics: Any) -> float | None:
    return metrics.get("validation_loss") if metrics else None


def _minus_loss(metrics: Any) -> float:
    loss = _loss(metrics)
    return -np.inf if loss is None or not math.isfinite(loss) else -loss


def _first_line(error: BaseException) -> str:
    text = str(error)
    for reason in (
        "No space left on device",
        "Disk quota exceeded",
        "File too large",
        "Permission denied",
        "Read-only file system",
    ):
        if reason in text:
            return reason
    return (text.splitlines() or [type(error).__name__])[0][:200].rstrip(".")
