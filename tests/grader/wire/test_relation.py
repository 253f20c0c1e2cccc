"""Relations between wrong values and expected ones: each is recognized, and none is claimed that does not hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grader.problem import EXACT, FLOAT32
from grader.wire.compare import Leaf
from grader.wire.relation import relation, right_part

pytestmark = pytest.mark.fast


def leaf(values: object) -> Leaf:
    array = np.asarray(values)
    return Leaf("x", str(array.dtype), array)


def said(expected: object, got: object, tolerance=FLOAT32, **sizes: int) -> str:
    return relation(leaf(expected), leaf(got), tolerance, sizes)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SQUARE, TALL, ROW = normal(6, 6), normal(6, 4), normal(12)


@pytest.mark.parametrize(
    ("expected", "got", "sentence"),
    [
        (SQUARE, SQUARE.T, "It is the transpose of what is expected."),
        (TALL, TALL.T, "It is the transpose of what is expected."),
        (normal(3, 3, 2), normal(3, 3, 2).swapaxes(0, 1), "Its axes 0 and 1 are swapped."),
        (TALL, TALL[:, None], "The values are right, in the right order; only the shape is wrong."),
        (TALL, TALL.T.reshape(6, 4), ""),
        (TALL, -TALL, "Every value has the wrong sign."),
        (TALL, TALL * np.float32(2**0.5), "Every value is 1.414 times the expected one (√2)."),
        (TALL, TALL * 4, "Every value is 4 times the expected one."),
        (TALL, TALL + 1, "Every value is 1 too large."),
        (TALL, 0 * TALL, "Every value is 0."),
        (TALL, np.nan * TALL, "Every value is NaN."),
        (TALL, TALL[::-1], "The rows are in reverse order."),
        (TALL, TALL[:, [0, 2, 1, 3]], "Columns 1 and 2 are swapped."),
        (TALL, TALL[:, [2, 3, 0, 1]], "Every column is 2 places too late, and the columns wrap around."),
        (TALL, np.roll(TALL, -1, 0), "Every row is 1 place too early, and the rows wrap around."),
        (
            ROW,
            ROW.reshape(3, 4).T.ravel(),
            "The values are interleaved: split into (3, 4), those two axes are swapped.",
        ),
        (ROW, ROW.reshape(4, 3)[[1, 0, 2, 3]].ravel(), "The blocks of 3 values are in another order: 1, 0, 2, 3."),
        (SQUARE, SQUARE[[3, 0, 5, 1, 4, 2]], "The rows are right, but in another order: 3, 0, 5, 1, 4, 2."),
        (
            TALL,
            np.concatenate([np.zeros((1, 4), np.float32), TALL[:-1]]),
            "From row 1 on, each row holds what is expected 1 place before it. The first row is 0.",
        ),
        (
            TALL,
            np.concatenate([TALL[1:], normal(1, 4, seed=7)]),
            "Up to row 4, each row holds what is expected 1 place after it.",
        ),
        (np.float32(0.7), np.float32(2.1), "It is 3 times what is expected."),
        (np.float32(0.7), np.float32(0.7 / 5), ""),
        (np.float32(0.7), np.float32(0.7 * 1024), "It is 1024 times what is expected."),
        (np.float32(0.7), np.float32(0.613), ""),
        (np.float32(0.7), np.float32(-0.7), "It has the wrong sign."),
        (np.float32(1), np.float32(-1), ""),  # such as a score that is chosen from a list
        (TALL, TALL * np.float32(1e-7), "Every value is nearly 0."),
        (TALL, normal(6, 4, seed=1), ""),
    ],
)
def test_a_relation_is_recognized(expected, got, sentence):
    assert said(expected, got, K=4, T=5) == sentence


@pytest.mark.parametrize(
    ("factor", "sentence"),
    [
        (lambda K, T: K, "Every value is 4 times the expected one (K = 4)."),
        (lambda K, T: K**-0.5, "Every value is 0.5 times the expected one (1/√K with K = 4)."),
        (lambda K, T: -(K**0.5), "Every value is -2 times the expected one (-√K with K = 4)."),
        (lambda K, T: 1 / T, "Every value is 0.2 times the expected one (1/T with T = 5)."),
        (lambda K, T: 0.5, "Every value is 0.5 times the expected one."),
        (lambda K, T: 4 if K == 4 else 81, "Every value is 4 times the expected one."),
    ],
)
def test_a_size_names_a_factor_that_it_explains_with_two_values(factor, sentence):
    def pair(**sizes: int):
        return leaf(TALL), leaf(TALL * np.float32(factor(**sizes))), sizes

    assert relation(*pair(K=4, T=5)[:2], FLOAT32, {"K": 4, "T": 5}, lambda: pair(K=9, T=7)) == sentence
    assert "with" not in relation(*pair(K=4, T=5)[:2], FLOAT32, {"K": 4, "T": 5}, lambda: pair(K=4, T=5))
    assert "with" not in relation(*pair(K=4, T=5)[:2], FLOAT32, {"K": 4, "T": 5})


def test_one_number_is_a_multiple_only_of_a_size_that_explains_it_twice():
    one, other = np.float32(0.7), np.float32(1.2)
    sides = leaf(one), leaf(one / 5)
    again = leaf(other), leaf(other / 7), {"T": 7}
    assert relation(*sides, FLOAT32, {"T": 5}, lambda: again) == "It is 0.2 times what is expected (1/T with T = 5)."
    assert relation(*sides, FLOAT32, {"T": 5}, lambda: (*again[:2], {"T": 6})) == ""


@pytest.mark.parametrize("tolerance", [FLOAT32, EXACT])
def test_a_factor_and_an_order_are_recognized_whatever_the_tolerance(tolerance):
    assert said(TALL, TALL * np.float32(0.3), tolerance) == "Every value is 0.3 times the expected one."
    assert said(SQUARE, SQUARE.T, tolerance)


def test_a_size_is_named_only_if_no_other_explains_the_factor():
    assert said(TALL, TALL / 2, H=2, K=4) == "Every value is 0.5 times the expected one."


def test_nothing_is_said_of_values_that_are_alike_or_right():
    symmetric = SQUARE + SQUARE.T
    for expected, got in (
        (symmetric, symmetric.T),
        (np.ones((4, 4), np.float32), 3 * np.ones((4, 4), np.float32)),
        (np.zeros((4, 4), np.float32), np.ones((4, 4), np.float32)),
        (np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0])),
        (TALL, TALL),
        (TALL, TALL * np.float32(1 + 2e-6)),
    ):
        assert said(expected, got) == ""


shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)
arrays = shapes.flatmap(
    lambda shape: st.tuples(*[hnp.arrays(np.float32, shape, elements=st.floats(-9, 9, width=16))] * 2)
)


@given(arrays, st.sampled_from([FLOAT32, EXACT]))
def test_what_is_said_is_true(pair, tolerance):
    """Whatever the arrays are: each sentence is tested again here, in its own way."""
    want, have = pair
    sentence = said(want, have, tolerance)

    def same(a, b):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-2)

    if not sentence:
        return
    assert not np.array_equal(want, have)
    if "times" in sentence:
        factor = float(sentence.split(" times")[0].split()[-1])
        assert same(factor * want, have)
    elif "wrong sign" in sentence:
        assert same(-want, have)
    elif "too large" in sentence or "too small" in sentence:
        assert np.ptp(have - want) < 1e-2
    elif sentence == "Every value is 0.":
        assert not have.any()
    elif sentence == "Every value is nearly 0.":
        assert np.abs(have).max() < 1e-3 * np.abs(want).max()
    elif "transpose" in sentence:
        assert same(want.T, have)
    elif "axes" in sentence and "interleaved" not in sentence:
        assert same(np.sort(want.ravel()), np.sort(have.ravel()))
    elif "what is expected" in sentence:
        assert any(
            same(want.take(range(n - by), axis), have.take(range(by, n), axis))
            or same(want.take(range(by, n), axis), have.take(range(n - by), axis))
            for axis, n in enumerate(want.shape)
            for by in (1, 2)
            if by < n
        )
    else:
        assert same(np.sort(want.ravel()), np.sort(have.ravel()))


@given(st.permutations(range(6)), st.integers(0, 1))
def test_every_order_of_rows_or_columns_is_recognized(order, axis):
    assert bool(said(SQUARE, SQUARE.take(order, axis))) == (order != sorted(order))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([3], "Only row 3 is wrong."),
        ([3, 5], "Rows 0 to 2 are right; row 3 is the first wrong one."),
        ([1, 2, 3, 4, 5], "Row 0 is right; row 1 is the first wrong one."),
        ([0, 1], "Rows 0 to 1 are wrong; the rows after them are right."),
        ([0, 1, 2, 3, 4, 5], ""),
        ([], ""),
    ],
)
def test_the_rows_that_are_right(rows, sentence):
    changed = TALL.copy()
    changed[rows] += normal(len(rows), 4, seed=3)
    assert right_part(leaf(TALL), leaf(changed), FLOAT32) == sentence


anything = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.complex64, np.bool_]),
    hnp.array_shapes(max_dims=3, max_side=4),
)


@given(anything, anything)
def test_nothing_is_raised_whatever_the_submission_returns(want, have):
    said(want, have, EXACT, T=3)
    right_part(leaf(want), leaf(have), EXACT)
