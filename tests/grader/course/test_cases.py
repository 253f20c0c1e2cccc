"""Cases: the same for the same seed, simplest first, and each size that is listed in one of them."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest

from grader.course import cases, catalog
from grader.errors import CourseError

pytestmark = pytest.mark.fast


@pytest.fixture(params=catalog.names())
def problem(request):
    return catalog.load(request.param)


def same(left, right):
    return np.array_equal(left, right, equal_nan=np.asarray(left).dtype.kind == "f")


def test_the_seed_decides_the_cases(problem):
    for group in problem.cases:
        first, again, other = (cases.draw(problem, group, seed) for seed in (0, 0, 1))
        assert len(first) == problem.cases[group].draws
        for left, right in zip(first, again, strict=True):
            assert left.sizes == right.sizes
            assert all(same(value, right.values[name]) for name, value in left.values.items())
        differ = [not same(value, other[0].values[name]) for name, value in first[0].values.items()]
        # Where a case holds only sizes, the probe draws parameters and batches from the case's seed.
        assert any(differ) or first[0].seed != other[0].seed, "a secret seed must give other cases"


def test_a_secret_case_gives_away_the_seed_of_no_other(problem):
    """Code that cannot be traced is told the seed of its case, and could draw the parameters of another from it."""
    seeds = [case.seed for drawn in cases.draw_all(problem, 1).values() for case in drawn]
    assert len(set(seeds)) == len(seeds)


def test_the_first_case_is_the_simplest(problem):
    for group, family in problem.cases.items():
        assert cases.draw(problem, group, 0)[0].sizes == {name: options[0] for name, options in family.sizes.items()}


def test_every_value_of_a_size_is_in_a_case(problem):
    """An edge that a family lists among its sizes is met whatever the seed."""
    for group, family in problem.cases.items():
        drawn = [cases.draw(problem, group, seed) for seed in range(3)]
        for name, options in family.sizes.items():
            if len(options) <= family.draws:
                assert all({case.sizes[name] for case in same_seed} == set(options) for same_seed in drawn)


def test_a_secret_seed_draws_the_sizes_of_an_only_case():
    """A submission that knows the sizes of the case that is measured could work for these only."""
    for problem, group in (("18", "large"), ("49", "long")):
        drawn = [cases.draw(catalog.find(problem), group, seed) for seed in range(1, 20)]
        assert {len(only) for only in drawn} == {1}
        assert {only[0].sizes["T"] for only in drawn} == set(catalog.find(problem).cases[group].sizes["T"])


def test_sizes_that_could_be_confused_differ():
    """Two axes of the same size would let a transposed array pass."""
    story = cases.draw(catalog.find("06"), "cases", 0)[0].values
    assert len({len(story["token_ids"]), story["vocab_size"], story["d_model"], story["num_heads"], story["d_ff"]}) == 5


def test_recorded_cases_are_those_that_were_drawn(problem, tmp_path):
    drawn = cases.draw_all(problem, 0)
    with zipfile.ZipFile(tmp_path / cases.RECORDED, "w") as archive:
        for group, family in drawn.items():
            for number, case in enumerate(family):
                archive.writestr(cases.entry(group, number), cases.recording(case))
    bundled = dataclasses.replace(
        problem,
        folder=tmp_path,
        cases={name: dataclasses.replace(one, make=None) for name, one in problem.cases.items()},
    )
    for group, read in cases.draw_all(bundled, 0).items():
        for left, right in zip(drawn[group], read, strict=True):
            assert (left.group, left.sizes, left.seed) == (right.group, right.sizes, right.seed)
            assert list(left.values) == list(right.values)
            assert all(same(value, right.values[name]) for name, value in left.values.items())
            assert json.dumps(described(left)) == json.dumps(described(right)), "a request for both is the same"


def described(case):
    return {
        name: (str(value.dtype), value.shape) if isinstance(value, np.ndarray) else value
        for name, value in case.values.items()
    }


def test_recordings_that_are_damaged_are_a_sentence(tmp_path):
    (tmp_path / cases.RECORDED).write_bytes(b"PK\x05\x06")
    with pytest.raises(CourseError, match=r"cannot be read: .* Unpack your teacher's bundle again"):
        cases.draw_all(dataclasses.replace(catalog.find("07"), folder=tmp_path), 0)
