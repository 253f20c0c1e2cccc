"""A traced program on its way from a submission's worker to the witness."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from grader.problem import Case
from grader.wire.channel import ChannelError, Frame
from grader.wire.compare import Leaf

MAX_INPUTS = 1024
# Prefixes of leaves in a request that holds arrays of several origins
CASE = "case:"  # the case's arrays
FILE = "file:"  # files
SAVED = "saved:"  # arrays of the probe that ran first, in another process
STATE = "numbers of the state"
"""The name of an array of a case for the probe that runs first, in place of the seed."""
ROWS = "rows:"  # and arrays of the case, among measures: the program must take them row by row
_MODULE, _SENT = "module", "sent:"


def state_numbers(seed: int, size: int = 4096) -> np.ndarray[Any, Any]:
    """Returns random normal numbers, float32, to be saved as state: at least as many as the state has, so that nothing
    shorter can replace them."""
    return np.random.default_rng([seed, size]).standard_normal(size).astype(np.float32)


def to_save(case: Case) -> Case:
    """Returns a case for the probe that runs first, with another seed. With its own, a file could hold the seed in
    place of all that is drawn from it."""
    # Any other seed: the only case of a public grading has seed 0, as everybody knows.
    return replace(case, seed=1, values={**case.values, STATE: state_numbers(case.seed)})


Source = Literal["case", "filled", "positive", "made", "sent"]


@dataclass(frozen=True)
class Input:
    """An array that a program takes.

    Attributes:
        source: Where its numbers come from: `case` is an array of the case, `filled` a parameter that is filled by its
            path, `positive` the same for the state of an optimizer, `made` what a function in INPUTS of `probes.py`
            makes from the case where the program runs, `sent` what the worker sent along.
        name: Its name there: a key of the case, a path, or the name of the function.
        shape: Its shape.
        dtype: The name of its dtype.
    """

    source: Source
    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, eq=False)
class Program:
    """A traced program.

    Attributes:
        module: The program as portable StableHLO bytecode.
        inputs: Where its inputs come from, in order.
        outputs: The paths of its outputs, in order.
        devices: The number of devices that it runs on.
        notes: Sentences for the learner.
        sent: Arrays that the worker computed itself and that the program takes.
    """

    module: bytes
    inputs: Sequence[Input]
    outputs: Sequence[str]
    devices: int = 1
    notes: Sequence[str] = ()
    sent: Sequence[Leaf] = ()

    def frame(self) -> Frame:
        """Returns the frame in which a worker sends this program."""
        fields = {"inputs": [list(asdict(item).values()) for item in self.inputs], "outputs": list(self.outputs),
                  "devices": self.devices, "notes": list(self.notes)}  # fmt: skip
        module = Leaf(_MODULE, "uint8", np.frombuffer(self.module, np.uint8))
        return Frame(
            "program", fields, [module, *(Leaf(_SENT + leaf.path, leaf.dtype, leaf.values) for leaf in self.sent)]
        )


def request(program: Frame, values: dict[str, Any], seed: int, measures: Sequence[str]) -> Frame:
    """Returns the request to a witness: run this program on a case, and measure it. `values` are the case's, by
    name."""
    scalars = {key: value for key, value in values.items() if not isinstance(value, np.ndarray)}
    case = [Leaf(CASE + key, str(x.dtype), x) for key, x in values.items() if isinstance(x, np.ndarray)]
    fields = {key: program.fields.get(key) for key in ("inputs", "outputs", "devices")}
    more = {"scalars": scalars, "seed": seed, "measures": list(measures)}
    return Frame("run", {**fields, **more}, [*program.leaves, *case])


def decode(frame: Frame) -> tuple[Program, dict[str, np.ndarray[Any, Any]]]:
    """Returns the program in a request, and the case's arrays. Raises ChannelError on anything that `Program.frame`
    does not make."""
    leaves = {leaf.path: leaf for leaf in frame.leaves}
    rows, outputs, devices = (frame.fields.get(key) for key in ("inputs", "outputs", "devices"))
    module = leaves.get(_MODULE)
    if module is None or module.dtype != "uint8" or type(rows) is not list or len(rows) > MAX_INPUTS:
        raise ChannelError("a program is not a module and its inputs")
    if type(outputs) is not list or any(type(name) is not str for name in outputs) or type(devices) is not int:
        raise ChannelError("a program's outputs are not names")
    if len(set(outputs)) < len(outputs) or any(name.split(".")[0] == "program" for name in outputs):
        raise ChannelError("a program's outputs do not have names of their own")
    sent = [
        Leaf(path.removeprefix(_SENT), leaf.dtype, leaf.values)
        for path, leaf in leaves.items()
        if path.startswith(_SENT)
    ]
    case = {path.removeprefix(CASE): leaf.values for path, leaf in leaves.items() if path.startswith(CASE)}
    return Program(module.values.tobytes(), [_input(row) for row in rows], outputs, devices, sent=sent), case


def _input(row: Any) -> Input:
    if type(row) is not list or [type(part) for part in row] != [str, str, list, str]:
        raise ChannelError("a program's input is not a source, a name, a shape and a dtype")
    source, name, shape, dtype = row
    if source not in get_args(Source) or any(type(n) is not int or not 0 <= n < 1 << 24 for n in shape):
        raise ChannelError("a program's input comes from nowhere")
    return Input(source, name, tuple(shape), dtype)
