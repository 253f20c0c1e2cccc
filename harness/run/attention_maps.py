"""Attention weights of any model, found in its program: of the harness's own as of one made of a learner's pieces.

Attention weights lie between two products: the scores `q kᵀ`, which depend on the tokens, and the mix with the values.
In between, an array `(..., T, T)` without negative numbers, and zero above the diagonal, holds the weights, up to a
factor per row.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2")


def attention_maps(model: nnx.Module, ids: np.ndarray, num_heads: int) -> list[np.ndarray]:
    """The weights of each layer, `(H, T, T)`: row t says how much position t takes from each position up to t.

    `model` maps ids `(T,)` to logits `(T, V)`. Empty if the model has no attention whose weights can be found.
    """
    graph, parameters = nnx.split(model)
    groups, arrays = _program(graph, len(ids))(parameters, jnp.asarray(ids, jnp.int32))
    weights: dict[int, np.ndarray] = {}
    for group, array in zip(groups(), jax.device_get(arrays), strict=True):
        if (found := _as_weights(np.asarray(array, np.float32))) is not None:
            weights[group] = found  # the last one: after masks and normalization
    maps = list(weights.values())
    if all(len(heads) == 1 for heads in maps) and len(maps) % num_heads == 0:  # each head has a product of its own
        maps = [np.concatenate(maps[start : start + num_heads]) for start in range(0, len(maps), num_heads)]
    return maps


def _as_weights(array: np.ndarray) -> np.ndarray | None:
    """The array as weights `(H, T, T)` whose rows sum to one, or None if it does not hold any."""
    array = array.reshape(-1, *array.shape[-2:])
    sums = array.sum(-1, keepdims=True)
    if not np.isfinite(array).all() or (array < 0).any() or np.triu(array, 1).any() or not (sums > 0).all():
        return None
    return array / sums


@functools.lru_cache(maxsize=4)
def _program(graph: Any, T: int) -> Any:
    """A function of the parameters and the ids that returns the candidates, and how to get the group of each."""
    groups: list[int] = []

    @jax.jit
    def candidates(parameters: Any, ids: jax.Array) -> list[jax.Array]:
        traced = jax.make_jaxpr(lambda ids: nnx.merge(graph, parameters)(ids))(ids)
        search = _Search(T)
        search.run(traced.jaxpr, [(const, False) for const in traced.consts], [(ids, True)])
        groups[:] = [group for group, _ in search.found]
        return [array for _, array in search.found]

    return lambda parameters, ids: (lambda: groups, candidates(parameters, ids))


_Value = tuple[Any, bool]  # and whether it depends on the ids


class _Search:
    """Evaluates a program and keeps the arrays `(..., T, T)` that depend on the ids, by the product of scores before
    them."""

    def __init__(self, T: int):
        self.T = T
        self.group = 0
        self.found: list[tuple[int, Any]] = []

    def run(self, jaxpr: Jaxpr, consts: list[_Value], arguments: list[_Value]) -> list[_Value]:
        """The results of the program."""
        known: dict[Any, _Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

        def read(atom: Any) -> _Value:
            return (atom.val, False) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            values = [read(atom) for atom in equation.invars]
            known.update(zip(equation.outvars, self._results(equation, values), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _results(self, equation: Any, values: list[_Value]) -> list[_Value]:
        name, parameters = equation.primitive.name, equation.params
        inner = parameters.get("call_jaxpr", parameters.get("jaxpr"))
        if name == "scan":
            return self._unrolled(parameters, values)
        if name == "cond":
            return self._chosen(parameters["branches"], *values)
        if name in _CALLS and isinstance(inner, ClosedJaxpr):
            return self.run(inner.jaxpr, [(const, False) for const in inner.consts], values)
        if name in _CALLS and isinstance(inner, Jaxpr):
            return self.run(inner, [], values)
        return self._applied(equation, values)

    def _applied(self, equation: Any, values: list[_Value]) -> list[_Value]:
        """Applies an operation that has no program inside, and keeps its results if they may be weights."""
        bound = equation.primitive.get_bind_params(equation.params)
        functions, options = bound if isinstance(bound, tuple) else ((), bound)  # only older JAX has functions
        results = equation.primitive.bind(*functions, *(value for value, _ in values), **options)
        depends = any(depends for _, depends in values)
        outputs = list(results) if equation.primitive.multiple_results else [results]
        is_product = equation.primitive.name == "dot_general" and all(depends for _, depends in values)
        for output in outputs:
            if is_product:
                self.group += 1
            elif depends and self._may_be_weights(output):
                self.found.append((self.group, output))
        return [(output, depends) for output in outputs]

    def _may_be_weights(self, array: Any) -> bool:
        """Says whether `array` is one of floats `(..., T, T)`."""
        square = jnp.ndim(array) >= 2 and jnp.shape(array)[-2:] == (self.T, self.T)
        return bool(square and jnp.issubdtype(array.dtype, jnp.floating))

    def _chosen(self, branches: Any, index: _Value, *values: _Value) -> list[_Value]:
        """A branch: layers of two kinds have one each. All are run, and what they compute is chosen from.

        Arrays are kept only if each branch has as many, of equal shapes.
        """
        start, kept, found, results = self.group, self.found, list[list[tuple[int, Any]]](), list[list[_Value]]()
        for branch in branches:
            self.group, self.found = start, []
            results.append(self.run(branch.jaxpr, [(const, False) for const in branch.consts], list(values)))
            found.append(self.found)
        self.found = kept

        def choose(*arrays: Any) -> Any:
            return jax.lax.select_n(index[0], *arrays)

        if len({tuple((group, jnp.shape(array)) for group, array in each) for each in found}) == 1:
            self.found += [(same[0][0], choose(*(array for _, array in same))) for same in zip(*found, strict=True)]
        outputs = zip(*results, strict=True)
        return [(choose(*(value for value, _ in each)), any(depends for _, depends in each)) for each in outputs]

    def _unrolled(self, parameters: Any, values: list[_Value]) -> list[_Value]:
        """A scan, step by step: each layer of a stack has weights of its own."""
        fixed, carried, length = parameters["num_consts"], parameters["num_carry"], parameters["length"]
        body = parameters["jaxpr"]
        consts = [(const, False) for const in body.consts]
        constants, carry, stacks = values[:fixed], values[fixed : fixed + carried], values[fixed + carried :]
        rows: list[list[_Value]] = [[] for _ in range(length)]
        for index in reversed(range(length)) if parameters["reverse"] else range(length):
            slices = [(stack[index], depends) for stack, depends in stacks]
            results = self.run(body.jaxpr, consts, [*constants, *carry, *slices])
            carry, rows[index] = results[:carried], results[carried:]
        stacked = [
            (jnp.stack([value for value, _ in column]), any(depends for _, depends in column))
            for column in zip(*rows, strict=True)
        ]
        return [*carry, *stacked]
