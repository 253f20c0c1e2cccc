"""Runs traced programs on a case, and measures them. A witness is a process that never ran a submission's Python.

A submission made the program, so it is checked before XLA parses it. XLA may still crash on it; that ends this process only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.problem import Case
from grader.wire.program import Input, Program
from grader.worker import bytecode, stablehlo
from grader.worker.measures import Compiled, OwnMeasure, measure
from grader.worker.pytrees import FILLS

# Custom calls that JAX makes for linear algebra and for shardings. All others are refused: a call can name any function that is
# registered in the process, Python callbacks included.
CUSTOM_CALLS = frozenset(
    ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"]
    + [f"lapack_s{routine}_ffi" for routine in ("geqrf", "orgqr", "getrf", "potrf", "syevd", "gesdd", "trsm")]
)
# Operations on arrays, and control flow. Those that communicate with a host, or whose shapes are dynamic, are not among them.
OPERATIONS = frozenset(
    f"vhlo.{name}"
    for name in """
    abs_v1 add_v1 all_gather_v1 all_gather_v2 all_reduce_v1 all_reduce_v2 all_to_all_v1 all_to_all_v2 and_v1 atan2_v1
    bitcast_convert_v1 broadcast_in_dim_v1 broadcast_v1 call_v1 case_v1 cbrt_v1 cbrt_v2 ceil_v1 cholesky_v1 clamp_v1
    collective_broadcast_v1 collective_broadcast_v2 collective_permute_v1 compare_v1 complex_v1 composite_v1 composite_v2
    concatenate_v1 constant_v1 convert_v1 convolution_v1 cosine_v1 cosine_v2 count_leading_zeros_v1 custom_call_v1
    custom_call_v2 divide_v1 dot_general_v1 dot_general_v2 dot_v1 dynamic_slice_v1 dynamic_update_slice_v1
    exponential_minus_one_v1 exponential_minus_one_v2 exponential_v1 exponential_v2 fft_v1 floor_v1 func_v1 gather_v1
    gather_v2 get_tuple_element_v1 if_v1 imag_v1 iota_v1 is_finite_v1 log_plus_one_v1 log_plus_one_v2 log_v1 log_v2
    logistic_v1 logistic_v2 map_v1 maximum_v1 minimum_v1 multiply_v1 negate_v1 not_v1 optimization_barrier_v1 or_v1 pad_v1
    partition_id_v1 popcnt_v1 power_v1 real_v1 reduce_precision_v1 reduce_scatter_v1 reduce_v1 reduce_window_v1 remainder_v1
    replica_id_v1 reshape_v1 return_v1 reverse_v1 rng_bit_generator_v1 round_nearest_afz_v1 round_nearest_even_v1 rsqrt_v1
    rsqrt_v2 scatter_v1 scatter_v2 select_and_scatter_v1 select_v1 shift_left_v1 shift_right_arithmetic_v1
    shift_right_logical_v1 sign_v1 sine_v1 sine_v2 slice_v1 sort_v1 sqrt_v1 sqrt_v2 subtract_v1 tan_v1 tan_v2 tanh_v1 tanh_v2
    transpose_v1 triangular_solve_v1 tuple_v1 while_v1 xor_v1
    """.split()
) | {
    "builtin.module", "builtin.unrealized_conversion_cast", "sdy.mesh", "sdy.sharding_constraint",
    "sdy.manual_computation", "sdy.return", "sdy.reshard",
    "sdy.sharding_group", "sdy.propagation_barrier", "sdy.named_computation",
}  # fmt: skip
LARGEST = 1 << 28  # elements of the arguments of a program, together


class RefusedProgramError(Exception):
    """The program does something that no program of this course does. The message says what."""


@dataclass
class Witness:
    """The programs that this process has compiled.

    `mesh`, `measures` and `makers`, the functions that make arrays from a case, are the problem's.
    """

    mesh: tuple[int, ...] = ()
    measures: Mapping[str, OwnMeasure] = field(default_factory=dict)
    makers: Mapping[str, Callable[[Case], Any]] = field(default_factory=dict)
    compiled: dict[Any, Compiled] = field(default_factory=dict)

    def run(self, program: Program, case: Case, measures: Sequence[str] = ()) -> dict[str, Any]:
        """The outputs of a program on a case by name, and what is measured of that very program, as `program.*`.

        Raises RefusedProgramError, or what XLA raises.
        """
        key = (program.module, tuple(program.inputs), tuple(program.outputs))
        if key not in self.compiled:
            check(program)
            self.compiled[key] = self._compile(program)
        compiled = self.compiled[key]
        sent = {leaf.path: leaf.values for leaf in program.sent}
        outputs = compiled([self._numbers(item, case, sent) for item in program.inputs])
        if len(outputs) != len(program.outputs):
            raise RefusedProgramError("it does not have as many outputs as names")
        return dict(zip(program.outputs, outputs, strict=True)) | measure(compiled, measures, case, self.measures)

    def _compile(self, program: Program) -> Compiled:
        devices = jax.devices()
        if not 1 <= program.devices <= len(devices):
            raise RefusedProgramError("its program runs on devices that do not exist")
        parsed = stablehlo.parsed(program.module)
        given = [(item.shape, stablehlo.element_type(jnp.dtype(item.dtype))) for item in program.inputs]
        if stablehlo.parameters(parsed) != given:  # XLA would read such an array as if it fitted
            raise RefusedProgramError("its program does not take the arrays that it names")
        if b"lapack_" in program.module:
            stablehlo.prepare_linear_algebra()
        devices = devices[: program.devices]
        return Compiled(program, stablehlo.compiled(program.module, devices), devices, self.mesh, parsed)

    def _numbers(self, item: Input, case: Case, sent: Mapping[str, Any]) -> Any:
        """The array that a program takes as this input."""
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


def check(program: Program) -> None:
    """Raises RefusedProgramError if a program contains anything but operations on arrays. Reads its bytes in Python only."""
    try:
        contents = bytecode.contents(program.module)
    except bytecode.BytecodeError as error:
        raise RefusedProgramError(f"its program cannot be read: {error}") from None
    if others := sorted(contents.operations - OPERATIONS):
        raise RefusedProgramError(f"its program contains the operation {others[0]!r:.60}")
    # Which strings are targets of calls stands in parts that are not read here, so every known target counts.
    calls = any(operation.startswith("vhlo.custom_call_") for operation in contents.operations)
    if others := sorted(contents.strings & stablehlo.custom_calls() - CUSTOM_CALLS if calls else ()):
        raise RefusedProgramError(f"its program calls {others[0]!r:.60}")
    if sum(int(np.prod(item.shape)) for item in program.inputs) > LARGEST:
        raise RefusedProgramError("its program takes too much memory")
