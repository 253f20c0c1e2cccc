"""JAX pytrees as named leaves: names the leaves, brings them to the host, and fills parameters by name."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.wire.channel import WIDENED
from grader.wire.compare import Leaf, on_page

MAX_VALUES = 1 << 22  # of one array of an output
MAX_ARRAYS = 1024  # of one output: each takes milliseconds to trace and compile, and no problem needs nearly as many
_NUMBERS = (bool, int, float, complex)


class BadOutputError(Exception):
    """The submission returned something other than an array or a tree of arrays. The message describes it."""


def named(tree: Any, prefix: str) -> dict[str, Any]:
    """Returns the arrays of `tree` by dotted path below `prefix`.

    Raises BadOutputError if a leaf is not an array or a number, or if there are far too many.
    """
    if tree is None:
        raise BadOutputError("returned None: is a `return` missing?")
    if isinstance(tree, nnx.Module):
        tree, module = nnx.state(tree), tree
        if not jax.tree.leaves(tree):
            raise BadOutputError(
                f"returned {_module(module)}, which is a module and has no variables; return {_plain(module)}"
            )
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    if len(leaves) > MAX_ARRAYS:
        raise BadOutputError(f"returned {len(leaves)} arrays, far more than any expected output")
    arrays = {}
    for keys, leaf in leaves:
        path = _join(prefix, keys)
        what = f"`{on_page(path)}` is" if path != prefix else "returned"
        arrays[path] = _array(leaf, what)
    return arrays


def _join(prefix: str, path: tuple[Any, ...]) -> str:
    parts = []
    for key in path:
        part = next((getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)), key)
        parts.append(str(part))
    if parts and parts[-1] == "value":  # nnx.Variable's own attribute is not part of a name
        parts.pop()
    return ".".join([prefix, *parts]) if prefix else ".".join(parts)


def _array(leaf: Any, what: str) -> Any:
    """Returns the leaf, if it is an array or a number. Raises BadOutputError with a message that begins with `what`."""
    if isinstance(leaf, jax.Array | np.ndarray) and leaf.size > MAX_VALUES:
        raise BadOutputError(f"{what} an array of shape {tuple(leaf.shape)}, far larger than any expected output")
    if isinstance(leaf, jax.Array) or type(leaf) in _NUMBERS:
        return leaf
    if type(leaf) is np.ndarray or isinstance(leaf, np.generic):
        if leaf.dtype.kind in "biufc" or leaf.dtype.name in WIDENED:  # which are no kinds of numbers to NumPy
            return leaf
        raise BadOutputError(f"{what} a NumPy array of non-numeric dtype {leaf.dtype}")
    hint = "; it has a shape but no numbers yet" if isinstance(leaf, jax.ShapeDtypeStruct) else ""
    raise BadOutputError(f"{what} {described(leaf)}, not an array{hint}")


def _module(module: nnx.Module) -> str:
    name = type(module).__name__
    return f"an nnx.{name}" if type(module).__module__.startswith("flax.") else f"a {name}"


def _plain(module: nnx.Module) -> str:
    """Returns the description of Python's equivalent of an nnx container."""
    return {nnx.Dict: "a dict", nnx.List: "a list"}.get(type(module), "its arrays")


def described(value: Any) -> str:
    """Returns a description of a value for use in a sentence: `None`, `an array of shape (2, 3)`, `a list`, `a tuple of
    3`."""
    if value is None:
        return "None"
    if isinstance(value, jax.Array) or type(value) is np.ndarray:
        return f"an array of shape {tuple(value.shape)}"
    name = "class" if isinstance(value, type) else type(value).__name__
    if type(value) is tuple:
        name += f" of {len(value)}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def to_leaves(arrays: Mapping[str, Any]) -> list[Leaf]:
    """Brings named arrays to the host, in the order given."""
    return [_to_leaf(path, array) for path, array in arrays.items()]


def _to_leaf(path: str, array: Any) -> Leaf:
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    dtype = str(array.dtype) if hasattr(array, "dtype") else {float: "float32", int: "int32"}.get(type(array), "")
    host = np.asarray(array, WIDENED.get(dtype))
    return Leaf(path, dtype or str(host.dtype), host)


def filled(path: str, shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray[Any, Any]:
    """Returns non-trivial values for a parameter. They depend only on its path, shape and dtype and on the seed.

    Matrices are normal, scaled to keep activations of order one. Vectors are 1 + normal / 2, which exposes a forgotten
    bias or scale.
    """
    digest = hashlib.sha256(f"{seed}:{path}".encode()).digest()
    normal = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(shape)
    values = 1 + normal / 2 if len(shape) < 2 else normal / np.sqrt(shape[-2])
    return values.astype(dtype)


def positive(path: str, shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray[Any, Any]:
    """Returns values like `filled`, but from a half upward, for the state of an optimizer: a mean square or a count is
    not negative."""
    values: np.ndarray[Any, Any] = 0.5 + abs(filled(path, shape, np.float32, seed))
    return values.astype(dtype)


FILLS = {"filled": filled, "positive": positive}


def kinds(state: Any) -> list[tuple[str, tuple[int, ...], Any]]:
    """Returns the path, shape and dtype of every variable of a state."""
    return [_kind(path, variable) for path, variable in nnx.to_flat_state(state)]


def fill_state(state: Any, fill: Callable[[str, tuple[int, ...], Any], Any]) -> Any:
    """Returns the same state with the value of every variable replaced by `fill(path, shape, dtype)`."""
    flat = nnx.to_flat_state(state)
    return nnx.from_flat_state((path, variable.replace(fill(*_kind(path, variable)))) for path, variable in flat)


def _kind(path: Any, variable: Any) -> tuple[str, tuple[int, ...], Any]:
    raw = variable.get_raw_value()
    return ".".join(map(str, path)), tuple(raw.shape), raw.dtype


def fill_module(module: nnx.Module, seed: int) -> None:
    """Overwrites every parameter of `module` in place, by name."""
    state = fill_state(
        nnx.state(module, nnx.Param), lambda path, shape, dtype: jnp.asarray(filled(path, shape, dtype, seed))
    )
    nnx.update(module, state)
