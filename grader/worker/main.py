"""The program that every worker runs: imports a file and runs probes on it.

It exchanges frames with the judge on descriptor 3. A submission's worker sends programs, files and short text, but no
results. The judge interprets them.
"""

import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import linecache
import math
import os
import random
import re
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, process_time
from types import ModuleType
from typing import Any, Protocol

import jax
import jaxtyping  # noqa: F401  imported before the fork, because submissions import it
import numpy as np
from flax import nnx  # noqa: F401  for the same reason

from commandline.problem_name import ProblemName
from grader.course import catalog
from grader.isolation.confinement import confine
from grader.isolation.job import Job, Launch
from grader.isolation.sandbox import inherited
from grader.problem import Case, Problem
from grader.wire.channel import ChannelError, Frame, receive, send
from grader.wire.clock import Clock
from grader.wire.program import CASE, FILE, decode
from grader.worker import exceptions, probes, stablehlo
from grader.worker.files import packed, remove_folders, unpacked
from grader.worker.pytrees import BadOutputError, to_leaves
from grader.worker.subject import Reading, Say, Subject, static
from grader.worker.time_limit import computing, time_limit
from grader.worker.tracing import Given, UntraceableError
from grader.worker.warm_up import warm_up
from grader.worker.witness import Witness
from grader.worker.xla_flags import QUICK_TO_COMPILE


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports course modules from text that came with the job, never from disk."""

    def __init__(self) -> None:
        self.texts: Mapping[str, str] = {}
        self.filenames: dict[str, str] = {}

    def install(self, name: str, texts: Mapping[str, str], filename: str) -> dict[str, Any]:
        """Imports `name` from `texts`, again if need be, and returns its namespace. Raises whatever the file raises."""
        for imported in [module for module in sys.modules if ProblemName.parse(module)]:
            del sys.modules[imported]
        self.texts, self.filenames = texts, {key: f"{key}.py" for key in texts} | {name: filename}
        for key, text in texts.items():
            lines = text.splitlines(keepends=True)
            linecache.cache[self.filenames[key]] = (len(text), None, lines, self.filenames[key])
        return vars(importlib.import_module(name))

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.texts:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=self.filenames[name])

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__file__ = self.filenames[name]
        exec(compile(self.texts[name], self.filenames[name], "exec", dont_inherit=True), vars(module))  # noqa: S102


class Partner(Protocol):
    """The interface of a partner: it answers the questions of a check's probe, in a process without the submission's
    code."""

    def answer(self, question: Any) -> Any:
        """Returns the answer to a question; both are JSON. Raises BadOutputError if nobody may ask that."""

    def arrays(self) -> dict[str, Any]:
        """Returns the arrays that the partner has recorded."""


# A job's extension answers a request with frames, about a loaded file if the process has loaded one.
Stream = Callable[[Subject | None, Frame], Iterator[Frame]]


@dataclass(frozen=True)
class ProblemRuntime:
    """A problem, imported.

    Attributes:
        problem: The definition.
        probes: The probes by name, generic ones included.
        readers: READERS of its `probes.py`.
        measures: MEASURES of its `probes.py`.
        inputs: INPUTS of its `probes.py`.
        partners: PARTNERS of its `probes.py`.
        stream: The function that answers requests for a stream of frames, from the job's extension; None without one.
    """

    problem: Problem
    probes: Mapping[str, Callable[..., Any]]
    readers: Mapping[str, Callable[..., Any]]
    measures: Mapping[str, Callable[..., Any]]
    inputs: Mapping[str, Callable[[Case], Any]]
    partners: Mapping[str, Callable[[Case], Partner]]
    stream: Stream | None = None


@functools.cache
def prepare(folder: Path) -> ProblemRuntime:
    """Imports a problem and its probes. Creates no array, so this process can still be forked afterwards."""
    module = catalog.probes_module(folder)
    by_name = {**probes.GENERIC, **getattr(module, "PROBES", {})}
    problem = catalog.defined(folder)
    tables = ("READERS", "MEASURES", "INPUTS", "PARTNERS")
    readers, measures, inputs, partners = (getattr(module, name, {}) for name in tables)
    return ProblemRuntime(problem, by_name, readers, measures, inputs, partners)


def extended(runtime: ProblemRuntime, job: Job) -> ProblemRuntime:
    """Returns the runtime with the job's extension, which is imported. No other worker is forked from a process that
    has done so."""
    if not job.extension:
        return runtime
    return replace(runtime, stream=importlib.import_module(job.extension).prepare(runtime.problem))


def main() -> None:
    """Runs a worker that was not forked, on a system where forking is not safe."""
    sock = inherited()
    launch = Launch.decode(receive(sock).fields)
    runtime = extended(prepare(launch.job.folder), launch.job)
    settle()
    work(sock, launch, runtime, namespaced=False)


def settle() -> None:
    """Freezes the imported objects, so that the garbage collector never scans them."""
    sys.dont_write_bytecode = True
    gc.freeze()
    gc.set_threshold(50_000)


def work(sock: socket.socket, launch: Launch, runtime: ProblemRuntime, *, namespaced: bool) -> None:
    """Confines this process, then answers requests until the judge hangs up."""
    gc.enable()
    # A verdict must not depend on where packages are installed.
    warnings.formatwarning = lambda message, category, *place, **more: f"{category.__name__}: {message}\n"
    job = launch.job
    os.environ["XLA_FLAGS"] = QUICK_TO_COMPILE
    if job.devices > 1:
        jax.config.update("jax_num_cpu_devices", job.devices)  # type: ignore[no-untyped-call]
    jax.config.update("jax_traceback_in_locations_limit", 0)  # type: ignore[no-untyped-call]
    isolation = confine(launch, namespaced=namespaced)
    if launch.spare:
        warm_up()
    send(sock, Frame("ready", {"isolation": isolation.encode(), "computed": process_time()}))

    def say(step: int, steps: int, loss: float) -> None:
        send(sock, Frame("progress", {"step": step, "steps": steps, "loss": float(loss)}))

    _serve(sock, runtime, say)


def _serve(sock: socket.socket, runtime: ProblemRuntime, say: Say) -> None:
    """Answers requests until the other end hangs up."""
    sources = Sources()
    sys.meta_path.insert(0, sources)
    state = WorkerState(runtime, sources, say, emit=lambda frame: send(sock, frame), hear=lambda: receive(sock))
    # Freed when a submission runs out of memory, so that this process can still report it: the traceback keeps all that
    # the submission allocated alive. Never written, so it takes no physical memory.
    reserve: list[Any] = []
    began = computing()  # this process's own imports are not the submission's time
    while True:
        reserve = reserve or [np.empty(16 << 20, np.uint8)]
        try:
            request = receive(sock)
        except ChannelError:
            return
        try:
            fields, left = request.fields, request.fields["within"]
            clock = Clock(fields["of"], lambda: computing() - began, monotonic() + left)
            with time_limit(left, clock, sources.filenames, fields.get("cpu", math.inf)):
                answer = state.answer(request)
        except BaseException as error:  # a submission may raise anything, SystemExit included
            reserve.clear()
            answer = Frame("raised", exceptions.fields(error, set(sources.filenames.values())))
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        try:
            send(sock, answer)
        except ChannelError as error:
            send(sock, Frame("raised", {"kind": "bad_output", "type": "", "message": str(error), "frames": []}))
        remove_folders()


@dataclass
class WorkerState:
    """The files that a worker has loaded, by variant, and the programs that it keeps. A witness loads no file."""

    runtime: ProblemRuntime
    sources: Sources
    say: Say
    emit: Callable[[Frame], None] = lambda frame: None
    hear: Callable[[], Frame] = lambda: Frame("nothing")
    partner: Partner | None = None  # of the probe that another process runs
    refused: BaseException | None = None  # why it did not answer: its arrays may be wrong from then on
    subjects: dict[str, Subject] = field(default_factory=dict)
    readings: dict[Any, Reading] = field(default_factory=dict)
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.runtime.problem.mesh, self.runtime.measures, self.runtime.inputs)

    def answer(self, request: Frame) -> Frame:
        """Carries out a request."""
        fields, problem = request.fields, self.runtime.problem
        if request.kind == "load":
            random.seed(fields["draws"])
            np.random.seed(fields["draws"])
            namespace = self.sources.install(problem.name, fields["sources"], fields["filename"])
            self.subjects[fields["variant"]] = Subject(problem, namespace, say=self.say, ask=self._ask)
            return Frame("loaded")
        if request.kind == "examples":
            return Frame("examples", {"failures": _false_examples(fields["page"])})
        if request.kind == "run":
            return self._run_program(request)
        if request.kind == "read":
            return self._read(request)
        if request.kind == "partner":
            self.partner, self.refused = self.runtime.partners[fields["partner"]](_case(request)), None
            return Frame("loaded")
        if request.kind == "question" and self.partner:
            try:
                return Frame("answer", {"answer": self.partner.answer(fields["question"])})
            except BaseException as error:
                self.refused = error
                raise
        if request.kind == "recorded" and self.partner:
            if self.refused:
                raise self.refused
            return Frame("reading", {"notes": [], "numeric": False, "traced": False}, to_leaves(self.partner.arrays()))
        if request.kind == "stream" and self.runtime.stream:
            for frame in self.runtime.stream(self.subjects.get(fields["variant"]), request):
                self.emit(frame)
            return Frame("end")
        return self._probe(request)

    def _probe(self, request: Frame) -> Frame:
        """Traces a probe's program, or runs the probe on the numbers of a case, or does both (for references only)."""
        fields, mode = request.fields, request.fields["mode"]
        case, subject = _case(request), self.subjects[fields["variant"]]
        subject.received = unpacked(request.leaves)
        partner = (
            self.runtime.partners[fields["partner"]](case)
            if "partner" in fields and mode not in ("trace", "run")
            else None
        )
        subject.ask = partner.answer if partner else self._ask
        probe = functools.partial(self.runtime.probes[fields["probe"]], subject, case, **fields["options"])
        if mode in ("eager", "until_nan"):
            subject.eager = True
            with jax.disable_jit(), jax.debug_nans(mode == "until_nan"):
                reading: Reading = probe()
            files = packed(reading.files) if reading.files else []
            return Frame("reading", leaves=[*to_leaves(reading.arrays), *files])
        try:
            if mode == "run" or hasattr(probe.func, "eager"):
                raise UntraceableError("")
            subject.eager = False
            key = (fields["variant"], fields["probe"], json.dumps(fields["options"], sort_keys=True), static(case))
            places = fields.get("places") and stablehlo.keeping_places(self.sources.filenames.values())
            # A file may have left it on, and a loop that it unrolls cannot be measured
            with jax.disable_jit(False), places or contextlib.nullcontext():
                reading = self.readings.get(key) or probe()
            if mode == "both":  # programs of references are kept, because many cases have the same shapes
                self.readings[key] = reading
        except UntraceableError as error:
            if mode == "trace":
                return Frame("untraceable", {"notes": [str(error)] if str(error) else []})
            subject.eager = True
            reading = probe()
        traced = reading.program is not None
        if reading.program and mode != "both":
            return replace(reading.program, notes=reading.notes).frame()
        arrays = self.witness.run(reading.program, case, fields["measures"]) if reading.program else reading.arrays
        arrays |= partner.arrays() if partner else {}
        files = packed(reading.files) if reading.files else []
        notes = {"notes": reading.notes, "numeric": reading.numeric, "traced": traced}
        return Frame("reading", notes, [*to_leaves(arrays), *files])

    def _ask(self, question: Any) -> Any:
        """Returns the answer of the partner in another process. Raises BadOutputError if the partner refuses to
        answer."""
        self.emit(Frame("question", {"question": question}))
        fields = self.hear().fields
        if refused := fields.get("refused"):
            raise BadOutputError(refused)
        return fields["answer"]

    def _read(self, request: Frame) -> Frame:
        """Turns the arrays and files of a probe into the leaves to compare, in a process that may have loaded no
        submission."""
        fields = request.fields
        arrays = {leaf.path: leaf.values for leaf in request.leaves if not leaf.path.startswith((CASE, FILE))}
        known = {leaf.path.removeprefix(CASE): leaf.values for leaf in request.leaves if leaf.path.startswith(CASE)}
        values = known | fields["scalars"]
        case = Case({key: values[key] for key in fields["order"]}, seed=fields["seed"])
        reading = self.runtime.readers[fields["probe"]](arrays, unpacked(request.leaves), case)
        return Frame("reading", {"notes": reading.notes, "numeric": False, "traced": False}, to_leaves(reading.arrays))

    def _run_program(self, request: Frame) -> Frame:
        """Runs a program that another process traced."""
        program, arrays = decode(request)
        case = Case({**arrays, **request.fields["scalars"]}, seed=request.fields["seed"])
        arrays = self.witness.run(program, case, request.fields["measures"])
        return Frame("reading", {"notes": [], "numeric": False, "traced": True}, to_leaves(arrays))


def _case(request: Frame) -> Case:
    """Returns the case of a request. An array whose numbers this process must not know is a `Given`."""
    fields = request.fields
    values: dict[str, Any] = {leaf.path: leaf.values for leaf in request.leaves if not leaf.path.startswith(FILE)}
    for key, (shape, dtype) in fields.get("arrays", {}).items():
        values[key] = Given("case", key, tuple(shape), dtype)
    values |= fields["scalars"]
    return Case({key: values[key] for key in fields["order"]}, seed=fields["seed"])


def _false_examples(page: str) -> list[str]:
    """Runs the `>>>` examples of a page in one namespace and returns a report on each that is false."""
    failures: list[str] = []
    examples = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    import doctest  # slow to import, and needed only by `grade verify`

    test = doctest.DocTestParser().get_doctest(examples, {}, "page.md", "page.md", 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    with np.printoptions(precision=4, suppress=True):
        runner.run(test, out=failures.append)
    return [report[-exceptions.MAX_MESSAGE :] for report in failures]
