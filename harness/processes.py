"""Several processes that train together: how they find each other, what the first decides for all, and when they stop.

Messages between them are short texts in the key-value store of JAX's coordinator. Nothing here computes on devices,
whose collectives time out while a process is busy.
"""

import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from commandline.errors import CommandError
from harness.errors import HarnessError, PieceError, UsageError

T = TypeVar("T")
PATIENCE_MS = 7 * 24 * 3600 * 1000  # the first process may tokenize for long; JAX ends the others if it dies
STARTERS = "srun (SLURM), mpirun (Open MPI), a Kubernetes JobSet, or on every host of a TPU pod"
_numbers = itertools.count()
_ERRORS = {kind.__name__: kind for kind in (HarnessError, UsageError, PieceError)}


@dataclass(frozen=True)
class Processes:
    """How this process finds the others. `number` is 0 for those that a launcher has started, which JAX finds
    itself."""

    coordinator: str | None
    number: int
    index: int | None

    @property
    def several(self) -> bool:
        """Whether there may be others."""
        return self.number != 1

    def join(self) -> None:
        """Connects this process to the others. Raises UsageError if the options do not fit together or find nobody."""
        by_hand = (
            "--coordinator HOST:PORT --processes N --process I, with the same HOST:PORT, that of process 0, for all"
        )
        if self.number:
            if self.coordinator is None or ":" not in self.coordinator:
                raise UsageError(
                    f"--processes {self.number} needs --coordinator HOST:PORT, with the same address for all "
                    f"processes. With {STARTERS}, --processes auto is enough."
                )
            index = self.index or 0
            if not 0 <= index < self.number:
                raise UsageError(f"--process {index} is not valid; it must be from 0 to {self.number - 1}.")
        elif self.coordinator is not None or self.index is not None:
            raise UsageError(
                f"--processes auto finds the others itself; omit --coordinator and --process, or write {by_hand}."
            )
        hide_native_output()
        import jax

        try:
            if self.number:
                jax.distributed.initialize(self.coordinator, num_processes=self.number, process_id=self.index or 0)
            else:
                jax.distributed.initialize()
        except (ValueError, RuntimeError) as error:
            if self.number:
                raise HarnessError(f"The processes did not find each other: {_first_line(error)}.") from error
            raise UsageError(
                f"--processes auto found no launcher ({_first_line(error)}). Start the processes with {STARTERS}; or "
                f"write {by_hand}."
            ) from error
        meet()


def meet() -> None:
    """Waits for the other processes, and connects the devices of all.

    Gloo gives up after 30 seconds without the others: they would need longer on a busy machine if they compiled first.
    """
    together(lambda: None)
    from jax.experimental.multihost_utils import sync_global_devices

    sync_global_devices("harness")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(". ")


def hide_native_output() -> None:
    """Keeps from stdout what libraries print there themselves, such as Gloo at each new group of processes."""
    sys.stdout.flush()
    own = os.dup(1)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
    sys.stdout = os.fdopen(own, "w", buffering=1, encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def count() -> int:
    """The number of processes."""
    import jax

    return jax.process_count()


def is_first() -> bool:
    """Whether this process writes what is written once."""
    import jax

    return jax.process_index() == 0


def decided_by_first(decide: Callable[[], T]) -> T:
    """What `decide` returns in the first process, in all of them: something that JSON can hold. All must call this
    alike.

    An error in the first process is raised in all: none waits for one that has ended.
    """
    if count() == 1:
        return decide()
    key = f"harness/{next(_numbers)}"
    if not is_first():
        return _unpacked(_store().blocking_key_value_get(key, PATIENCE_MS))
    try:
        result = decide()
    except Exception as error:
        _store().key_value_set(key, _packed(error))
        raise
    _store().key_value_set(key, json.dumps({"result": result}))
    return result


def first_alone(work: Callable[[], T]) -> T:
    """`work` in the first process, then in the others, which may find what the first has written. An error is raised in
    all."""
    found: list[T] = []

    def first() -> None:
        found.append(work())

    decided_by_first(first)
    return together(lambda: found[0] if found else work())


def together(work: Callable[[], T]) -> T:
    """`work` in each process. An error in one of them is raised in all."""
    if count() == 1:
        return work()
    import jax

    key = f"harness/{next(_numbers)}"
    try:
        result = work()
    except Exception as error:
        _store().key_value_set(f"{key}/{jax.process_index()}", _packed(error))
        raise
    _store().key_value_set(f"{key}/{jax.process_index()}", json.dumps({"result": None}))
    for index in range(count()):
        _unpacked(_store().blocking_key_value_get(f"{key}/{index}", PATIENCE_MS))
    return result


def _packed(error: Exception) -> str:
    kind = type(error).__name__ if type(error).__name__ in _ERRORS else HarnessError.__name__
    text = str(error) if isinstance(error, CommandError) else f"Another process failed: {type(error).__name__}: {error}"
    return json.dumps({"error": kind, "text": text})


def _unpacked(message: str) -> Any:
    content = json.loads(message)
    if "error" in content:
        raise _ERRORS[content["error"]](content["text"])
    return content["result"]


def _store() -> Any:
    from jax._src import distributed  # not public, but what Orbax uses, too

    return distributed.global_state.client


@contextlib.contextmanager
def preemption() -> Iterator[Callable[[int], bool]]:
    """Yields a function that says after each step, in all processes alike, whether to stop after this one.

    SIGTERM, in any process, makes them agree on a step, by the service of JAX that listens to it. Ctrl-C and a closed
    terminal count as SIGTERM here.
    """
    from jax.experimental.multihost_utils import reached_preemption_sync_point

    def forward(number: int, frame: Any) -> None:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGTERM)

    numbers = [signal.SIGINT, *closed_terminal()]
    previous = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield reached_preemption_sync_point
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def closed_terminal() -> list[int]:
    """SIGHUP, which a terminal sends when it closes; nothing under nohup, which ignores it, and where it does not
    exist."""
    number = getattr(signal, "SIGHUP", None)
    return [] if number is None or signal.getsignal(number) == signal.SIG_IGN else [number]
