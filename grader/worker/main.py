"""The program that every worker runs: it imports one file and runs probes on it.

It exchanges frames with the judge on descriptor 3. It sends numbers and short text only; the judge decides what they mean.
"""

import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import linecache
import os
import re
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import jax
import jaxlib.version
import jaxtyping  # noqa: F401  what every submission imports, too
import numpy as np
from flax import nnx  # noqa: F401  the same

from grader.course import catalog
from grader.isolation.confinement import confine
from grader.isolation.job import Launch
from grader.isolation.sandbox import inherited
from grader.problem import Case, Problem, ProblemName
from grader.wire.channel import ChannelError, Frame, receive, send
from grader.worker import probes, second_process
from grader.worker.pytrees import BadOutputError, to_leaves
from grader.worker.subject import BadEntryError, Subject

MAX_MESSAGE = 1000

# Tiny programs: compile fast rather than run fast. Both workers compile alike, so this changes no verdict.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# Halves it again. XLA aborts on a flag it does not know, so only versions that were tried get it.
if jaxlib.version.__version__.startswith("0.10."):
    QUICK_TO_COMPILE += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"

# How Flax says that an attribute of a module holds arrays or modules where it will not find them.
PLAIN_CONTAINER = re.compile(
    r"Found data on value of type '<class '(list|tuple|dict)'>' assigned to static attribute '(\w+)'"
)


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports course modules from text that came with the job, never from disk."""

    def __init__(self) -> None:
        self.texts: Mapping[str, str] = {}
        self.filenames: dict[str, str] = {}

    def install(self, name: str, texts: Mapping[str, str], filename: str) -> dict[str, Any]:
        """Imports `name` afresh from `texts`; returns its namespace. Raises whatever the file raises."""
        for loaded in [other for other in sys.modules if ProblemName.parse(other)]:
            del sys.modules[loaded]
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


@dataclass(frozen=True)
class ProblemRuntime:
    """A problem and its probes, imported."""

    problem: Problem
    probes: Mapping[str, Callable[..., Any]]
    wants_second_process: bool


@functools.cache
def prepare(name: str) -> ProblemRuntime:
    """Imports the probes of a problem. Makes no array, so that a process may still be forked afterwards."""
    module = catalog.probes_module(name)
    known = {**probes.GENERIC, **getattr(module, "PROBES", {})}
    return ProblemRuntime(catalog.load(name), known, getattr(module, "SECOND_PROCESS", False))


def main() -> None:
    """The worker of a reference, or of a system that cannot fork. Serves until the judge hangs up."""
    sock = inherited()
    launch = Launch.decode(receive(sock).fields)
    runtime = prepare(launch.job.problem)
    settle()
    work(sock, launch, runtime, entered=False)


def settle() -> None:
    """Freezes the imported objects, so that the garbage collector never scans them."""
    sys.dont_write_bytecode = True
    gc.freeze()
    gc.set_threshold(50_000)


def work(sock: socket.socket, launch: Launch, runtime: ProblemRuntime, *, entered: bool) -> None:
    """Confines this process, then answers the judge's requests until it hangs up."""
    gc.enable()
    # A verdict must not depend on where packages are installed.
    warnings.formatwarning = lambda message, category, *place, **more: f"{category.__name__}: {message}\n"
    job = launch.job
    os.environ["XLA_FLAGS"] = "" if job.long_runs else QUICK_TO_COMPILE
    settings: dict[str, Any] = {}
    if job.programs:
        # A shared folder of programs is read only: no program takes this many seconds to compile.
        least = 0 if job.keeps_programs else 1e9
        settings |= {
            "jax_compilation_cache_dir": str(job.programs),
            "jax_persistent_cache_min_compile_time_secs": least,
        }
    if job.devices > 1:
        settings |= {"jax_num_cpu_devices": job.devices}
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    isolation = confine(launch, entered=entered)
    second = second_process.fork(lambda sock: _serve(sock, runtime, None)) if runtime.wants_second_process else None
    send(sock, Frame("ready", {"isolation": isolation.encode()}))
    _serve(sock, runtime, second, lambda text: send(sock, Frame("progress", {"text": text})))


def _serve(
    sock: socket.socket,
    runtime: ProblemRuntime,
    second: second_process.SecondProcess | None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Answers requests until the other end hangs up."""
    sources = Sources()
    sys.meta_path.insert(0, sources)
    state = WorkerState(runtime, sources, second, say)
    # Freed when a submission fills the memory, so that this process can still report it: the traceback keeps everything that
    # the submission allocated alive.
    reserve: list[Any] = []
    while True:
        reserve = reserve or [
            np.empty(16 << 20, np.uint8)
        ]  # allocated but never written, so it takes no physical memory
        try:
            request = receive(sock)
        except ChannelError:
            return
        try:
            answer = state.answer(request)
        except BaseException as error:  # a submission may raise anything, SystemExit included
            reserve.clear()
            answer = Frame("raised", _describe(error, set(sources.filenames.values())))
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        try:
            send(sock, answer)
        except ChannelError as error:
            send(sock, Frame("raised", {"kind": "bad_output", "type": "", "message": str(error), "frames": []}))


@dataclass
class WorkerState:
    """The files that a worker has loaded, by variant, and the requests that loaded them."""

    runtime: ProblemRuntime
    sources: Sources
    second: second_process.SecondProcess | None
    say: Callable[[str], None]
    subjects: dict[str, Subject] = field(default_factory=dict)
    loads: dict[str, Frame] = field(default_factory=dict)

    def answer(self, request: Frame) -> Frame:
        """Carries out a request."""
        fields, problem = request.fields, self.runtime.problem
        if request.kind == "load":
            namespace = self.sources.install(problem.name, fields["sources"], fields["filename"])
            self.subjects[fields["variant"]] = Subject(problem, namespace, say=self.say)
            self.loads[fields["variant"]] = request
            return Frame("loaded")
        if request.kind == "examples":
            return Frame("examples", {"failures": _false_examples(fields["page"])})
        values = {leaf.path: leaf.values for leaf in request.leaves} | fields["scalars"]
        values = {key: values[key] for key in fields["order"]}
        case = Case(values, seed=fields["seed"])
        subject = self.subjects[fields["variant"]]
        if self.second:
            subject.elsewhere = functools.partial(self.second.probe, self.loads[fields["variant"]], request)
        reading = self.runtime.probes[fields["probe"]](subject, case, **fields["options"])
        return Frame("reading", {"notes": reading.notes, "numeric": reading.numeric}, to_leaves(reading.arrays))


def _describe(error: BaseException, files: set[str]) -> dict[str, Any]:
    """An exception as the learner should see it: kind, type, first paragraph, and their own frames only."""
    frames = [
        [frame.filename, frame.lineno or 0, frame.name, (frame.line or "").strip()[:200]]
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename in files
    ]
    kind, message = "raised", _first_paragraph(error)
    if isinstance(error, second_process.SecondProcessError):
        return error.fields
    if isinstance(error, SyntaxError) and error.filename in files:
        kind = "syntax"
        frames = [[error.filename or "", error.lineno or 0, "", (error.text or "").rstrip("\n")[:200]]]
        caret = " " * max(0, (error.offset or 1) - 1) + "^"
        return {"kind": kind, "type": type(error).__name__, "message": message, "frames": frames, "caret": caret[:200]}
    if isinstance(error, NotImplementedError):
        kind = "not_implemented"
    elif isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in message or "Out of memory" in message:
        kind, message = "memory", f"ran out of memory: {message or 'an allocation failed'}"
    elif isinstance(error, BlockingIOError):
        kind, message = "processes", "it started more processes than it may"
    elif isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        kind, message = "exit", f"it raised {type(error).__name__} ({message or 'no code'})"
    elif isinstance(error, BadOutputError):
        kind = "bad_output"
    elif isinstance(error, BadEntryError):
        kind = "bad_entry"
    elif isinstance(error, ModuleNotFoundError):
        kind = "missing_import"
        message = str(error.name or message)
    elif isinstance(error, jax.errors.UnexpectedTracerError):
        kind = "tracer"
    elif found := PLAIN_CONTAINER.search(message):
        kind, wrapped = "plain_container", "nnx.Dict" if found[1] == "dict" else "nnx.List"
        message = (
            f"`{found[2]}` is a plain {found[1]}, and Flax would never find what is in it: wrap it in `{wrapped}(...)`"
        )
    return {"kind": kind, "type": type(error).__name__, "message": message, "frames": frames[-8:]}


def _first_paragraph(error: BaseException) -> str:
    """The start of an exception's message; JAX's are essays. Raises nothing, though `__str__` may be the learner's."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:
        return "(its message cannot be shown)"
    # Addresses differ from run to run; a verdict must not.
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", text.strip())
    return text.split("\n\n")[0][:MAX_MESSAGE]


def _false_examples(page: str) -> list[str]:
    """Runs the `>>>` examples of a page in one namespace and returns a report on each that is false."""
    failures: list[str] = []
    examples = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    import doctest  # slow to import, and only authors need it

    test = doctest.DocTestParser().get_doctest(examples, {}, "page.md", "page.md", 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    with np.printoptions(precision=4, suppress=True):
        runner.run(test, out=failures.append)
    return [report[-MAX_MESSAGE:] for report in failures]
