"""The comparison: leaves before values, tolerance by dtype, and NaN never matches a number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grader.problem import EXACT, FLOAT32, Tolerance
from grader.wire.compare import Leaf, compare, on_page, select

pytestmark = pytest.mark.fast

floats = hnp.arrays(
    np.float32, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(-1e3, 1e3, width=32, allow_subnormal=False)
)


def leaf(path: str, values: object, dtype: str = "float32") -> Leaf:
    return Leaf(path, dtype, np.asarray(values, dtype if dtype != "bfloat16" else "float32"))


def mismatch(expected: object, got: object, tolerance: Tolerance = FLOAT32, how: str = "close"):
    return compare([leaf("x", expected)], [leaf("x", got)], tolerance, how)


@given(floats)
def test_values_match_themselves_exactly(values):
    assert mismatch(values, values, EXACT) is None


@given(floats, st.data())
def test_one_wrong_value_is_reported_with_its_index(values, data):
    index = tuple(data.draw(st.integers(0, n - 1)) for n in values.shape)
    changed = values.copy()
    changed[index] += np.float32(1 + abs(values).max())
    result = mismatch(values, changed)
    assert result.kind == "value"
    assert result.index == index
    assert (result.wrong, result.total) == (1, values.size)


@given(floats)
def test_rounding_errors_pass(values):
    assert mismatch(values, values * np.float32(1 + 1e-6)) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_non_finite_value_matches_only_itself(bad):
    assert mismatch([1.0, bad], [1.0, bad]) is None
    for other in (0.0, np.nan, np.inf, -np.inf):
        if not np.array_equal(other, bad, equal_nan=True):
            assert mismatch([1.0, bad], [1.0, other]).index == (1,)
            assert mismatch([1.0, other], [1.0, bad]).index == (1,)


def test_an_expected_value_that_is_zero_up_to_rounding_reads_as_zero():
    assert mismatch([-2.36e-08, 1.0], [0.5, 1.0]).expected == "0"
    assert mismatch([-2.36e-08, 1.0], [0.5, 1.0], EXACT).expected == "-2.36e-08"


def test_two_values_that_differ_are_printed_until_they_do():
    near = np.float32(0.1) * np.float32(1 + 2**-23)
    found = mismatch(np.float32(0.1), near, EXACT)
    assert (found.expected, found.got) == ("0.1", "0.10000002")
    assert mismatch(np.int32(3), np.int32(4), EXACT).got == "4"
    tiny = mismatch(np.float32(1e-30), np.float32(0), EXACT)
    assert (tiny.expected, tiny.got) == ("1e-30", "0")


def test_leaves_are_compared_before_values():
    expected = [leaf("a", 1), leaf("pos_embed", [1, 2])]
    assert compare(expected, [leaf("a", 2)], FLOAT32).kind == "missing"
    extra = compare(expected, [*expected, leaf("head.kernel", 1)], FLOAT32)
    assert (extra.kind, extra.path) == ("unexpected", "head.kernel")


def test_a_missing_leaf_is_paired_with_the_nearest_name_of_its_shape():
    def hint(missing: list[Leaf], unexpected: list[Leaf]) -> str:
        return compare(missing, unexpected, FLOAT32).hint

    table, name = leaf("pos_embed", [1, 2]), "; you have `pos_embedding` instead"
    assert hint([table], [leaf("pos_embedding", [3, 4])]) == name
    assert hint([table], [leaf("pos_embedding", [3, 4, 5])]) == ""
    assert hint([table], [leaf("pos_embedding.0", 3)]) == ""
    assert hint([table], [leaf("pos_embed.embedding", 3)]) == "; you have `pos_embed.embedding` instead"
    one_array = "; got a list, tuple or dictionary instead of one array"
    assert hint([leaf("output", 1)], [leaf("output.0", 3)]) == one_array
    assert hint([leaf("output.logits", 1)], [leaf("output.logits.a", 3)]) == one_array
    assert hint([leaf("pos_embed", [1, 2]), leaf("ln.scale", [1])], [leaf("wpe", [3, 4])]) == "; you have `wpe` instead"
    assert hint([table, leaf("initial.pos_embed", [1, 2])], [leaf("wpe", [3, 4])]) == "; you have `wpe` instead"
    # `out.bias` is what became of `out_proj.bias`.
    assert hint([leaf("k_proj.bias", [1]), leaf("out_proj.bias", [1])], [leaf("out.bias", [1])]) == ""
    assert hint([table], [leaf("pos_embed" + "x" * n, [1, 2]) for n in range(1, 5000)])


def test_a_wrong_shape_or_dtype_is_a_mismatch():
    assert mismatch([[1.0, 2.0]], [1.0, 2.0]).kind == "shape"
    assert compare([leaf("x", 1)], [leaf("x", 1, "int32")], FLOAT32).kind == "dtype"
    assert compare([leaf("x", 1)], [leaf("x", 1, "bfloat16")], FLOAT32).kind == "dtype"
    assert compare([leaf("x", 1)], [leaf("x", 1, "complex64")], FLOAT32).kind == "dtype"
    assert compare([leaf("x", 1)], [leaf("x", 1, "float64")], FLOAT32) is None, "a wider dtype is accepted"


def test_the_tolerance_grows_with_the_expected_value_only():
    """Otherwise a number that is far too large would allow itself."""
    tolerance = Tolerance(rtol=0.5, atol=0)
    assert mismatch([4.0, 1.0], [4.0, 1.5], tolerance) is None
    assert mismatch([4.0, 1.0], [4.0, 1.6], tolerance).index == (1,)
    assert mismatch([4.0, 1.0], [4.0, 0.4], tolerance).index == (1,)
    assert mismatch([4.0, 1.0], [4.0, 1e9], Tolerance(rtol=0.99, atol=0)).index == (1,)


def test_at_most_allows_smaller_values_only():
    tolerance = Tolerance(rtol=0.5, atol=0)
    assert mismatch(100, 20, tolerance, "at_most") is None
    assert mismatch(100, 149, tolerance, "at_most") is None
    assert mismatch(100, 151, tolerance, "at_most").expected == "at most 150", "the bound"
    assert mismatch(100, np.nan, tolerance, "at_most") is not None


def test_select_returns_a_leaf_or_all_leaves_below_a_path():
    leaves = [leaf("output", 1), leaf("output.0", 1), leaf("outputs", 1), leaf("gradient.x", 1)]
    assert [selected.path for selected in select(leaves, "output")] == ["output", "output.0"]
    assert select(leaves, "") == leaves


@pytest.mark.parametrize(
    ("path", "name"),
    [("output", "output"), ("output.balance", "balance"), ("first.output.balance", "first.balance"),
     ("program.work", "work"), ("program.exchanged.all_reduce", "exchanged.all_reduce"), ("gradient.output",
     "gradient.output"),
     ("my_output.balance", "my_output.balance")],
)  # fmt: skip
def test_a_report_names_leaves_as_the_page_does(path, name):
    assert on_page(path) == name
    found = compare([leaf(path, [1, 2])], [leaf(path, [1, 3])], EXACT)
    assert found.sentence() == f"`{name}[1]` is 3, expected 2; 1 of 2 values differ"
    missing = compare([leaf(path, 1)], [leaf("program.other", 1)], EXACT)
    assert missing.sentence() == f"`{name}` is missing (expected float32 scalar); you have `other` instead"
