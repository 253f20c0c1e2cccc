"""The pieces of a program that a test calls from another process: numbers pass between the two, and nothing else.

The extension of two workers. In one, the program answers questions. In the other, which never sees a line of it, the
learner's `test(pieces)` asks them. Any other object, such as a model or the state of an optimizer, stays
where it is, and the test holds its place.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.problem import Case, Problem
from grader.wire.channel import WIRE_DTYPES, Frame
from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Subject
from grader.worker.toy_models import ToyLM

_PLAIN = (type(None), bool, int, float, str)
_SEQUENCES: Mapping[str, type] = {"list": list, "tuple": tuple}


def prepare(problem: Problem) -> Callable[[Any, Frame], Iterator[Frame]]:
    """Returns the function that answers a question to the program, or runs the test that asks them."""
    program: list[Program] = []

    def stream(subject: Any, request: Frame) -> Iterator[Frame]:
        if "question" not in request.fields:
            subject.attribute("test")(Pieces(subject.ask))
            yield Frame("tested")
            return
        if not program:
            program.append(Program(subject))
        yield Frame("answer", {"answer": program[0].answer(request.fields["question"])})

    return stream


@dataclass
class Program:
    """The program under test: its entries, objects that some of them need, and all that it has returned."""

    subject: Subject
    objects: list[Any] = field(default_factory=list)

    def answer(self, question: Any) -> Any:
        """Returns the answer to a question; both are JSON. Raises BadOutputError if no test may ask that, and what the
        program raises."""
        of, do = question["of"], question["do"]
        args = [self._decoded(value) for value in question.get("args", ())]
        kwargs = {name: self._decoded(value) for name, value in question.get("kwargs", {}).items()}
        if do == "call" and (entry := self._module_entry(of)):
            return self._encoded(self._made(entry, args, **kwargs))
        target = self._found(of)
        if do == "call":
            return self._encoded(target(*args, **kwargs))
        if isinstance(target, nnx.Module) and do in ("parameters", "set_parameters"):
            return self._encoded(_parameters(target, *args))
        if do == "get" and isinstance(target, tuple) and question["name"] in getattr(target, "_fields", ()):
            return self._encoded(getattr(target, question["name"]))
        raise BadOutputError("a test may call a piece, read the parameters of a model and the fields of a named tuple")

    def _module_entry(self, of: Mapping[str, Any]) -> Any:
        """Returns the entry that a question names if it is a module; otherwise None."""
        entries = self.subject.problem.entries
        return next((entry for entry in entries if entry.name == of.get("entry") and entry.is_module), None)

    def _made(self, entry: Any, args: list[Any], rngs: int = 0) -> nnx.Module:
        """Returns a new module, constructed with the arguments that the page names."""
        names = entry.made_by.arguments if entry.made_by else entry.construct
        if len(args) != len(names):
            raise BadOutputError(f"`{entry.name}` takes {', '.join(names)}")
        values = dict(zip(names, args, strict=True))
        return self.subject.constructor(entry.name, Case(values, seed=rngs))()

    def _found(self, of: Mapping[str, Any]) -> Any:
        if "object" in of:
            return self.objects[of["object"]]
        name = of["entry"]
        if name in {entry.name for entry in self.subject.problem.entries}:
            return self.subject.attribute(name)
        if name in BENCH:
            return BENCH[name]
        raise BadOutputError(f"there is no piece `{name}`")

    def _encoded(self, value: Any) -> Any:
        def keep(thing: Any) -> Any:
            self.objects.append(thing)
            return {"object": len(self.objects) - 1}

        return encoded(value, keep)

    def _decoded(self, value: Any) -> Any:
        return decoded(value, self._found, jnp.asarray)


def _parameters(module: nnx.Module, new: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the parameters of a module by path, after those in `new` have got other values."""
    flat = dict(nnx.to_flat_state(nnx.state(module, nnx.Param)))
    by_path = {".".join(map(str, path)): variable for path, variable in flat.items()}
    for path, value in (new or {}).items():
        if path not in by_path or by_path[path][...].shape != jnp.shape(value):
            raise BadOutputError(f"the model has no parameter {path!r} of the shape {jnp.shape(value)}")
    changed = {".".join(map(str, path)): path for path in flat}
    if new:
        nnx.update(
            module, nnx.from_flat_state((changed[path], by_path[path].replace(value)) for path, value in new.items())
        )
    return {path: (new or {}).get(path, variable[...]) for path, variable in by_path.items()}


def _toy_model(vocab_size: int, d_model: int, d_ff: int, seed: int = 0) -> nnx.Module:
    return ToyLM(vocab_size, d_model, d_ff, nnx.Rngs(seed), drawn=True)


def _loss_sum(parameters: Any, token_ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the sum of the losses of a table of bigrams, and the number of targets that are not 0."""
    losses = optax.softmax_cross_entropy_with_integer_labels(parameters["table"][token_ids[:, :-1]], token_ids[:, 1:])
    counts = token_ids[:, 1:] != 0
    return jnp.sum(losses * counts), jnp.sum(counts)


# What pieces of a trainer work on: a test cannot send a function or a model.
BENCH: Mapping[str, Any] = {"toy_model": _toy_model, "loss_sum": _loss_sum, "sgd": optax.sgd}


class Piece:
    """A function, model or other object of the program under test, as its test sees it."""

    __slots__ = ("_ask", "_of")

    def __init__(self, ask: Callable[[Any], Any], of: Mapping[str, Any]) -> None:
        self._ask, self._of = ask, of

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the piece returns: NumPy arrays, numbers, and other pieces."""
        return self._answer("call", args=args, kwargs=kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._answer("get", name=name)

    def parameters(self) -> Any:
        """Returns the parameters of a model by path, such as `q_proj.kernel`."""
        return self._answer("parameters")

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Gives parameters of a model other values, by path."""
        self._answer("set_parameters", args=[dict(values)])

    def _answer(self, do: str, args: Any = (), kwargs: Any = None, **more: str) -> Any:
        def place(value: Any) -> Any:
            if isinstance(value, Piece):
                return value._of
            raise TypeError(f"a piece takes numbers, arrays and other pieces, not a {type(value).__name__}")

        sent = [encoded(value, place) for value in args]
        named = {name: encoded(value, place) for name, value in (kwargs or {}).items()}
        try:
            answer = self._ask({"of": self._of, "do": do, "args": sent, "kwargs": named, **more})
        except BadOutputError as refused:
            raise RuntimeError(str(refused)) from None
        return decoded(answer, lambda of: Piece(self._ask, of))


class Pieces:
    """The entries of the program under test, by name."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask

    def __getattr__(self, name: str) -> Piece:
        if name.startswith("_"):
            raise AttributeError(name)
        return Piece(self._ask, {"entry": name})


def encoded(value: Any, place: Callable[[Any], Any]) -> Any:
    """Returns a tree of numbers as JSON. `place` returns what stands for anything else."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (jax.Array, np.ndarray, np.generic)) and value.dtype.name in WIRE_DTYPES:
        array = np.asarray(value)
        return {"array": [array.dtype.name, list(array.shape), base64.b64encode(array.tobytes()).decode()]}
    if type(value) in _SEQUENCES.values():
        return {type(value).__name__: [encoded(item, place) for item in value]}
    if type(value) is dict:
        return {"dict": [[encoded(key, place), encoded(item, place)] for key, item in value.items()]}
    return place(value)


def decoded(value: Any, found: Callable[[Mapping[str, Any]], Any], array: Callable[[Any], Any] = np.array) -> Any:
    """Returns the tree that `encoded` made this JSON of. `found` returns what a place stands for, and `array` makes the
    arrays."""
    if type(value) in _PLAIN:
        return value
    ((kind, inner),) = value.items()
    if kind == "array":
        dtype, shape, data = inner
        if dtype not in WIRE_DTYPES:
            raise BadOutputError("an array has a dtype that cannot be sent")
        return array(np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape))
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](decoded(item, found, array) for item in inner)
    if kind == "dict":
        return {decoded(key, found): decoded(item, found, array) for key, item in inner}
    return found(value)
