"""Describes in one sentence how wrong values relate to the expected ones: transposed, scaled, shifted, in another
order. NumPy only.

A sentence is returned only if it holds on the actual numbers, and if it is informative: not for values that are all
equal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from grader.problem import Tolerance
from grader.wire.compare import Leaf, Values, errors

# Far closer than two unrelated arrays come to each other. The numbers must be this close to the sentence, and not so
# without it.
_CLOSE = 1e-4
_FEWEST_DISTINCT = 3  # values; with fewer, a relation holds by chance
_LARGEST = 1 << 20  # values of an array
_LONGEST_AXIS = 512
_MOST_COMPARISONS = 1 << 22
_SHOWN = 8  # numbers of an order
_ROUND = (2, 3, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096)  # factors that people use


Agree = Callable[[Values, Values], bool]
Sizes = Mapping[str, int]
Again = Callable[[], tuple[Leaf, Leaf, Sizes] | None]  # the same leaf of a case with other sizes


@np.errstate(all="ignore")  # `got` is untrusted: it may hold any numbers
def relation(
    expected: Leaf, got: Leaf, tolerance: Tolerance, sizes: Sizes | None = None, again: Again = lambda: None
) -> str:
    """Describes how all values of `got` follow from those of `expected`, in a sentence; empty if no relation was found.

    `sizes` are the case's numbers by name. A factor is named after the size that explains it, if that size also
    explains the factor of a case in which it has another value.
    """
    want, have = _real(expected), _real(got)
    if want is None or have is None or not _can_be_related(want, have):
        return ""
    name = _Namer(sizes or {}, again)
    # A check of small or exact numbers needs an equally strict comparison here.
    close = Tolerance(rtol=_CLOSE, atol=min(_CLOSE, 10 * tolerance.atol))

    def agree(a: Values, b: Values) -> bool:
        return a.shape == b.shape and not (_units(a, b, close) > 1).any()

    if want.shape == have.shape and not (_units(want, have, close) > 10).any():
        return ""  # almost right: near-symmetry and the like could not be told apart from a relation
    if np.isnan(have).all() and want.size > 1:
        return "Every value is NaN."
    if not np.isfinite(have).all():
        return ""
    if want.shape == have.shape and want.size == 1:
        return _scalar(float(want.ravel()[0]), float(have.ravel()[0]), name)
    return _of_several(want, have, agree, name) if np.unique(want).size >= _FEWEST_DISTINCT else ""


def _can_be_related(want: Values, have: Values) -> bool:
    """Returns whether there are as many values in `want` as in `have`, not too many of them, and all of them finite."""
    return want.size == have.size <= _LARGEST and bool(np.isfinite(want).all())


def _of_several(want: Values, have: Values, agree: Agree, name: "_Namer") -> str:
    """Returns the first sentence that `agree` proves of arrays of several finite values; empty if there is none."""
    if want.shape != have.shape:
        return _transposed(want, have, agree) or _reshaped(want, have, agree)
    found = (relate(want, have, agree) for relate in (_zero, _offset, _transposed, _reordered, _displaced))
    return _factor(want, have, agree, name) or next((sentence for sentence in found if sentence), "")


def right_part(expected: Leaf, got: Leaf, tolerance: Tolerance) -> str:
    """Returns a sentence on the rows, or else the columns, that are right where others are wrong; empty if there are
    none."""
    if expected.shape != got.shape or _real(expected) is None or _real(got) is None:
        return ""
    wrong = errors(expected, got, tolerance) > 1
    for axis, n in enumerate(wrong.shape):
        bad = np.flatnonzero(wrong.any(axis=tuple(other for other in range(wrong.ndim) if other != axis)))
        if n < 3 or not 0 < bad.size < n:
            continue
        one, many = _words(wrong.ndim, axis)
        first, last = int(bad[0]), int(bad[-1])
        if bad.size == 1:
            return f"Only {_at(one, first)} is wrong."
        if last - first + 1 == bad.size and first == 0:
            return f"{_from_0_to(many, last)} are wrong; the {many.split()[0]} after them are right."
        if first > 1:
            return f"{_from_0_to(many, first - 1)} are right; {_at(one, first)} is the first wrong one."
        if first == 1:
            return f"{_at(one, 0).capitalize()} is right; {_at(one, 1)} is the first wrong one."
    return ""


def _at(one: str, place: int) -> str:
    """Names a slice: 'row 3', or 'slice 3 along axis 0'."""
    noun, *where = one.split(" ", 1)
    return " ".join([noun, str(place), *where])


def _from_0_to(many: str, last: int) -> str:
    noun, *where = many.split(" ", 1)
    return " ".join([noun.capitalize(), f"0 to {last}", *where])


def _real(leaf: Leaf) -> Values | None:
    return leaf.values.astype(np.float64) if leaf.values.dtype.kind in "biuf" else None


def _units(want: Values, have: Values, close: Tolerance) -> Values:
    return errors(Leaf("", "", want), Leaf("", "", have), close)


def _scalar(want: float, have: float, name: "_Namer") -> str:
    """Describes the factor of a single number. One number is always some multiple of another, so only a factor with a
    name is informative."""
    if want == 0 or have == 0:
        return ""
    factor = have / want
    if abs(factor + 1) < _CLOSE:  # by chance, if both are whole numbers
        return "" if want.is_integer() else "It has the wrong sign."
    named = name(factor)
    simple = any(abs(max(abs(factor), 1 / abs(factor)) / ratio - 1) < _CLOSE for ratio in _ROUND)
    return f"It is {factor:.5g} times what is expected{named}." if named or simple else ""


def _ratio(want: Values, have: Values) -> float:
    """Returns the factor that takes expected values nearest to the actual ones."""
    return float(np.sum(want * have) / np.sum(want * want))


def _factor(want: Values, have: Values, agree: Agree, name: "_Namer") -> str:
    factor = _ratio(want, have)
    if not have.any() or not np.isfinite(factor) or not agree(factor * want, have):
        return ""
    if abs(factor) < _CLOSE:
        return "Every value is nearly 0."
    if abs(factor + 1) < _CLOSE:
        return "Every value has the wrong sign."
    return f"Every value is {factor:.4g} times the expected one{name(factor)}."


@dataclass(frozen=True)
class _Namer:
    """Names a factor by the one size of the case that explains it, or as a root: ` (1/√K with K = 4)`."""

    sizes: Sizes
    again: Again

    def __call__(self, factor: float) -> str:
        """Returns the name; empty if neither explains the factor, or several sizes do."""
        sign = "-" if factor < 0 else ""
        found = [(name, form) for name, n in self.sizes.items() if n > 1 for form in _matching(factor, n)]
        if len(found) == 1 and self._holds_again(*found[0]):
            (name, form), n = found[0], self.sizes[found[0][0]]
            return f" ({name} = {n})" if sign + form == "n" else f" ({sign}{form.replace('n', name)} with {name} = {n})"
        roots = [
            form.replace("n", str(n)) for n in (2, 3, 5, 6, 7, 8, 10) for form in _matching(factor, n) if "√" in form
        ]
        return f" ({sign}{roots[0]})" if roots else ""

    def _holds_again(self, name: str, form: str) -> bool:
        """Returns whether the size also explains the factor of another case, in which the size is another number."""
        other = self.again()
        if other is None or other[2].get(name, self.sizes[name]) == self.sizes[name]:
            return False
        want, have = _real(other[0]), _real(other[1])
        if want is None or have is None or want.shape != have.shape:
            return False
        return form in _matching(_ratio(want, have), other[2][name])


def _matching(factor: float, n: int) -> list[str]:
    """Returns the forms of n that a factor is equal to, whatever its sign."""
    forms = {"n": n, "1/n": 1 / n, "√n": n**0.5, "1/√n": n**-0.5}
    return [form for form, value in forms.items() if abs(abs(factor) / value - 1) < _CLOSE]


def _zero(want: Values, have: Values, agree: Agree) -> str:
    return "" if have.any() else "Every value is 0."


def _offset(want: Values, have: Values, agree: Agree) -> str:
    by = float(np.mean(have - want))
    return f"Every value is {abs(by):.4g} too {'large' if by > 0 else 'small'}." if agree(want + by, have) else ""


def _transposed(want: Values, have: Values, agree: Agree) -> str:
    if not 2 <= want.ndim <= 4:
        return ""
    for order in permutations(range(want.ndim)):
        if order == tuple(range(want.ndim)) or not agree(want.transpose(order), have):
            continue
        moved = [axis for axis, place in enumerate(order) if axis != place]
        if want.ndim == 2:
            return "It is the transpose of what is expected."
        if len(moved) == 2:
            return f"Its axes {moved[0]} and {moved[1]} are swapped."
        return f"Its axes are those of the expected array in the order {', '.join(map(str, order))}."
    return ""


def _reshaped(want: Values, have: Values, agree: Agree) -> str:
    return (
        "The values are right, in the right order; only the shape is wrong."
        if agree(want.ravel(), have.ravel())
        else ""
    )


def _reordered(want: Values, have: Values, agree: Agree) -> str:
    """Describes values that are the same slices along an axis, in another order; empty if they are not."""
    for axis in range(want.ndim):
        order = _order(want, have, axis, agree)
        if order is not None:
            return _order_sentence(order, *_words(want.ndim, axis))
    return ""


def _order(want: Values, have: Values, axis: int, agree: Agree) -> Values | None:
    """Returns the place in `want` of each slice of `have` along an axis; None unless each is found exactly once."""
    n = want.shape[axis]
    if not 2 <= n <= _LONGEST_AXIS or n * want.size > _MOST_COMPARISONS or (want.ndim == 1 and n <= _FEWEST_DISTINCT):
        return None
    ours, theirs = (np.moveaxis(x, axis, 0).reshape(n, -1) for x in (want, have))
    allowed = _CLOSE * max(1e-30, float(np.sqrt(np.mean(want**2))))
    near = np.array([(np.abs(ours - row) <= allowed + _CLOSE * np.abs(ours)).all(axis=1) for row in theirs])
    if not ((near.sum(axis=0) == 1).all() and (near.sum(axis=1) == 1).all()):
        return None
    order: Values = near.argmax(axis=1)
    return order if agree(want.take(order, axis), have) else None


def _order_sentence(order: Values, one: str, many: str) -> str:
    n, here = order.size, np.arange(order.size)
    moved = np.flatnonzero(order != here)
    if moved.size == 2:
        return f"{many.capitalize()} {moved[0]} and {moved[1]} are swapped."
    if (order == here[::-1]).all():
        return f"The {many} are in reverse order."
    late = int(-order[0] % n)
    if (order == (here - late) % n).all():
        by, where = (late, "late") if late <= n // 2 else (n - late, "early")
        return f"Every {one} is {by} {'place' if by == 1 else 'places'} too {where}, and the {many} wrap around."
    for size in (size for size in range(n // 2, 1, -1) if n % size == 0):
        blocks = order.reshape(-1, size)
        if (blocks == blocks[:, :1] + np.arange(size)).all() and (blocks[:, 0] % size == 0).all():
            return f"The blocks of {size} {many} are in another order{_listed(blocks[:, 0] // size)}."
    for a in (a for a in range(2, n // 2 + 1) if n % a == 0):
        if (order == here.reshape(a, n // a).T.ravel()).all():
            return f"The {many} are interleaved: split into ({a}, {n // a}), those two axes are swapped."
    return f"The {many} are right, but in another order{_listed(order)}."


def _listed(order: Values) -> str:
    return f": {', '.join(map(str, order))}" if order.size <= _SHOWN else ""


def _displaced(want: Values, have: Values, agree: Agree) -> str:
    """Describes values that are the same slices along an axis, some places later or earlier, with something else where
    these do not reach; empty if they are not."""
    for axis in range(want.ndim):
        one, many = _words(want.ndim, axis)
        ours, theirs = (np.moveaxis(x, axis, 0) for x in (want, have))
        for by in range(1, min(3, len(ours) - 1)):
            for late in (True, False):
                a, b = (ours[:-by], theirs[by:]) if late else (ours[by:], theirs[:-by])
                right = (ours[by:], theirs[by:]) if late else (ours[:-by], theirs[:-by])
                if np.unique(a).size < _FEWEST_DISTINCT or not agree(a, b) or agree(*right):
                    continue
                places, rest = "1 place" if by == 1 else f"{by} places", theirs[:by] if late else theirs[-by:]
                edge = f"{one} is" if by == 1 else f"{by} {many} are"
                gap = "" if rest.any() else f" The {'first' if late else 'last'} {edge} 0."
                if late:
                    return f"From {_at(one, by)} on, each {one} holds what is expected {places} before it.{gap}"
                return (
                    f"Up to {_at(one, len(ours) - 1 - by)}, each {one} holds what is expected {places} after it.{gap}"
                )
    return ""


def _words(ndim: int, axis: int) -> tuple[str, str]:
    """Returns the names of a slice along an axis: the singular and the plural."""
    if ndim == 1:
        return "value", "values"
    if ndim == 2:
        return ("row", "rows") if axis == 0 else ("column", "columns")
    return f"slice along axis {axis}", f"slices along axis {axis}"
