"""Records the inputs and outputs of every named submodule of a module, for `grader.judge.fault` to compare."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flax import nnx

from grader.wire.compare import WHOLE


@dataclass
class Recorder:
    """Numbers the calls of each submodule and passes each of its inputs and outputs to `watch`, with a name."""

    paths: dict[int, str]
    watch: Callable[[str, Any], Any]

    def __post_init__(self) -> None:
        self.calls: dict[str, int] = {}

    def counts(self) -> dict[str, int]:
        """Returns the number of calls of each submodule, also of calls whose values could not be recorded."""
        return {path: self.calls.get(path, -1) + 1 for path in self.paths.values()}

    def call(self, original: Callable[..., Any], submodule: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a submodule. `watch` may replace its array arguments and its result."""
        path = self.paths.get(id(submodule))
        if path is None:
            return original(submodule, *args, **kwargs)
        number = self.calls[path] = self.calls.get(path, -1) + 1
        name = f"{path}.call{number}"
        args = tuple(self.watch(f"{name}.in{i}", x) if hasattr(x, "dtype") else x for i, x in enumerate(args))
        out = original(submodule, *args, **kwargs)
        return self.watch(f"{name}.out", out) if hasattr(out, "dtype") else out


@contextlib.contextmanager
def watching(module: nnx.Module, watch: Callable[[str, Any], Any]) -> Iterator[Recorder]:
    """Passes the inputs and outputs of every named submodule of `module` to `watch` within the context. `watch` may
    replace them."""
    nodes = [(path, node) for path, node in nnx.iter_graph(module) if isinstance(node, nnx.Module)]
    nodes = [(path, node) for path, node in nodes if callable(node)]
    recorder = Recorder({id(node): ".".join(map(str, path)) or WHOLE for path, node in nodes}, watch)
    originals = {type(node): type(node).__call__ for _, node in nodes}

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda submodule, *args, **kwargs: recorder.call(original, submodule, args, kwargs)

    for cls, original in originals.items():
        cls.__call__ = wrapped(original)  # type: ignore[method-assign]
    try:
        yield recorder
    finally:
        for cls, original in originals.items():
            cls.__call__ = original  # type: ignore[method-assign]
