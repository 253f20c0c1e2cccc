"""Runs traced programs on a case, and measures them. A witness is a process that never ran a submission's Python.

A submission made the program, so it is checked before XLA parses it. XLA may still crash on it; that ends this process
only.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.problem import Case
from grader.wire.program import ROWS, Input, Program
from grader.worker import annotations, bytecode, cost, counting, lapack_calls, row_loop, stablehlo
from grader.worker.counting import UncountableError
from grader.worker.measures import Compiled, Execution, OwnMeasure, measure
from grader.worker.pytrees import FILLS

# Operations that hold others, and those on shardings. All others must be in the table of costs: operations on arrays,
# and control flow. Those that communicate with a host, or whose shapes are dynamic, are not in it.
OPERATIONS = frozenset("""
    builtin.module builtin.unrealized_conversion_cast sdy.mesh sdy.sharding_constraint sdy.manual_computation sdy.return
    sdy.reshard sdy.sharding_group sdy.propagation_barrier
    """.split())  # fmt: skip
LARGEST = 1 << 28  # elements of the arguments of a program, together


class RefusedProgramError(Exception):
    """The program does something that no program of this course does. The message names it."""


@dataclass
class Witness:
    """The programs that this process has compiled.

    Attributes:
        mesh: The mesh of the problem, on which placements are measured.
        measures: The problem's own measures, by name.
        makers: The functions of the problem that make arrays from a case, by name.
        compiled: The programs, each compiled once.
    """

    mesh: tuple[int, ...] = ()
    measures: Mapping[str, OwnMeasure] = field(default_factory=dict)
    makers: Mapping[str, Callable[[Case], Any]] = field(default_factory=dict)
    compiled: dict[Any, Compiled] = field(default_factory=dict)

    def run(self, program: Program, case: Case, measures: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the outputs of a program on a case by name, and the measures of that very program, as `program.*`.

        Raises RefusedProgramError, or what XLA raises.
        """
        compiled = self.sound(program)
        for name in measures:
            if name.startswith(ROWS):
                _check_rows(compiled, name.removeprefix(ROWS).split(","))
        sent = {leaf.path: leaf.values for leaf in program.sent}
        arguments = [self._numbers(item, case, sent) for item in program.inputs]
        execution = Execution(compiled, arguments, case)
        try:
            measured = measure(execution, measures, self.measures)
            outputs = execution.outputs
        except (UncountableError, KeyError, ValueError) as error:
            raise RefusedProgramError(f"its work cannot be counted: {error}") from error
        return dict(zip(program.outputs, outputs, strict=True)) | measured

    def sound(self, program: Program) -> Compiled:
        """Returns a program, compiled once. Raises RefusedProgramError, or what XLA raises."""
        key = (program.module, tuple(program.inputs), tuple(program.outputs))
        if key not in self.compiled:
            check(program)
            self.compiled[key] = self._compile(program)
        if len(self.compiled[key].output_shapes) != len(program.outputs):
            raise RefusedProgramError("it does not have as many outputs as names")
        return self.compiled[key]

    def _compile(self, program: Program) -> Compiled:
        devices = jax.devices()
        if not 1 <= program.devices <= len(devices):
            raise RefusedProgramError("its program runs on devices that do not exist")
        parsed = stablehlo.parsed(program.module)
        given = [(item.shape, stablehlo.element_type(jnp.dtype(item.dtype))) for item in program.inputs]
        if stablehlo.parameters(parsed) != given:  # XLA would read such an array as if it fitted
            raise RefusedProgramError("its program does not take the arrays that it names")
        if not stablehlo.sizes_are_known(parsed):
            raise RefusedProgramError("its program has arrays of unknown sizes")
        if routine := lapack_calls.misfit(parsed):
            raise RefusedProgramError(f"its program calls LAPACK's {routine} with arrays of other shapes")
        if b"lapack_" in program.module:
            stablehlo.prepare_linear_algebra()
        devices = devices[: program.devices]
        composed = any(each.name == counting.COMPOSITE for each in stablehlo.operations(parsed))
        changed = composed or len(devices) > 1 or annotations.has_notes(parsed)
        module = counting.plain(program.module) if changed else program.module
        return Compiled(program, stablehlo.compiled(module, devices), devices, self.mesh, parsed)

    def _numbers(self, item: Input, case: Case, sent: Mapping[str, Any]) -> Any:
        """Returns the array that a program takes as this input."""
        dtype = jnp.dtype(item.dtype)
        if item.source in FILLS:
            return FILLS[item.source](item.name, item.shape, dtype, case.seed)
        names: Mapping[str, Any] = {"case": case.values, "sent": sent, "made": self.makers}[item.source]
        if item.name not in names:
            raise RefusedProgramError(f"its program takes an array that does not exist, {item.name!r:.60}")
        value = names[item.name]
        array: Any = np.asarray(value(case) if item.source == "made" else value)
        if array.shape != item.shape:
            raise RefusedProgramError(f"its program takes {item.name!r:.60} with another shape")
        return array.astype(dtype)


def _check_rows(compiled: Compiled, names: Sequence[str]) -> None:
    """Raises RefusedProgramError unless a program takes these arrays of the case row by row, in one loop."""
    numbers = [
        number for number, item in enumerate(compiled.program.inputs) if item.source == "case" and item.name in names
    ]
    if numbers and compiled.program.inputs[numbers[0]].shape[0] > 1:
        try:
            row_loop.check(compiled.parsed, numbers)
        except row_loop.OutOfOrderError:
            raise RefusedProgramError(f"its program does not take `{names[0]}` one row after another") from None


def check(program: Program) -> None:
    """Raises RefusedProgramError if a program contains anything but operations on arrays. Reads its bytes in Python
    only."""
    try:
        contents = bytecode.contents(program.module)
    except bytecode.BytecodeError as error:
        raise RefusedProgramError(f"its program cannot be read: {error}") from None
    if others := sorted(each for each in contents.operations - OPERATIONS if not cost.is_counted(each)):
        raise RefusedProgramError(f"its program contains the operation {others[0]!r:.60}")
    # The parts that tell which strings are targets of calls are not read here, so every known target counts.
    calls = any(operation.startswith("vhlo.custom_call_") for operation in contents.operations)
    if others := sorted(contents.strings & stablehlo.custom_calls() - cost.CUSTOM_CALLS if calls else ()):
        raise RefusedProgramError(f"its program calls {others[0]!r:.60}")
    # The text of a compiled program is read by lines.
    if any(unicodedata.category(letter) == "Cc" for text in contents.strings for letter in text):
        raise RefusedProgramError("its program has a name of several lines")
    if sum(int(np.prod(item.shape)) for item in program.inputs) > LARGEST:
        raise RefusedProgramError("its program takes too much memory")
