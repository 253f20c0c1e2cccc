"""The functions that the probes of a problem may use. Everything else below `grader` may change without notice.

A definition (`problem.py`) takes its vocabulary from `grader.problem` and `grader.checks`, a play from
`grader.exhibits`, and probes (`probes.py`) from here. This module imports JAX, so only code that runs in a worker may
import it.
"""

from grader.tasks.offer import Offer, Weighed
from grader.wire.program import STATE, Input, Program, state_numbers
from grader.worker import stablehlo, witness
from grader.worker.cache_probes import extended
from grader.worker.call_programs import stages
from grader.worker.collectives import collectives
from grader.worker.cost import computes_numbers, rows_in_order
from grader.worker.counting import LOOP
from grader.worker.decode_loop import stepwise
from grader.worker.files import new_folder
from grader.worker.held_out import nats
from grader.worker.measures import MEASURES, Execution, small_ones_count, work
from grader.worker.mesh_run import MeshRun, run_on_mesh
from grader.worker.placement import as_inputs, called_on_mesh, coded, like, mesh_of, moved, place, placed, put, step
from grader.worker.probes import cotangent
from grader.worker.pytrees import BadOutputError, described, fill_state, filled, named
from grader.worker.repeated import Repeated
from grader.worker.subject import Arrays, BadEntryError, Reading, Subject, eager, to_fill
from grader.worker.toy_models import (
    DeepLM,
    Stories,
    ToyGPT,
    ToyLM,
    gpt_logits,
    mid_training,
    model_factory,
    never_real,
    sum_of_losses,
)
from grader.worker.tracing import (
    Given,
    UntraceableError,
    alone,
    given,
    is_tracing_error,
    made,
    sent,
    trace,
    trace_of,
)
from grader.worker.witness import RefusedProgramError, Witness

__all__ = [
    "LOOP",
    "MEASURES",
    "STATE",
    "Arrays",
    "BadEntryError",
    "BadOutputError",
    "DeepLM",
    "Execution",
    "Given",
    "Input",
    "MeshRun",
    "Offer",
    "Program",
    "Reading",
    "RefusedProgramError",
    "Repeated",
    "Stories",
    "Subject",
    "ToyGPT",
    "ToyLM",
    "UntraceableError",
    "Weighed",
    "Witness",
    "alone",
    "as_inputs",
    "called_on_mesh",
    "coded",
    "collectives",
    "computes_numbers",
    "cotangent",
    "described",
    "eager",
    "extended",
    "fill_state",
    "filled",
    "given",
    "gpt_logits",
    "is_tracing_error",
    "like",
    "made",
    "mesh_of",
    "mid_training",
    "model_factory",
    "moved",
    "named",
    "nats",
    "never_real",
    "new_folder",
    "place",
    "placed",
    "put",
    "rows_in_order",
    "run_on_mesh",
    "sent",
    "small_ones_count",
    "stablehlo",
    "stages",
    "state_numbers",
    "step",
    "stepwise",
    "sum_of_losses",
    "to_fill",
    "trace",
    "trace_of",
    "witness",
    "work",
]
