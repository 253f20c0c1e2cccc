"""Collectives are read from the text of a compiled program, and count as often as they run."""

import dataclasses
from fractions import Fraction
from types import SimpleNamespace

import pytest

from grader.worker import measures
from grader.worker.collectives import collectives
from grader.worker.counting import UncountableError

pytestmark = pytest.mark.fast

TEXT = """
ENTRY %main.9_spmd (param.9: f32[2,4], param.8: s32[]) -> f32[2,4] {
  %all-reduce.1 = (f32[], f32[1,16]{1,0}, /*index=2*/bf16[6,2]{1,0}) all-reduce(%a, %b, %c), \
replica_groups={{0,1},{2,3}}
  %all-gather-start = f32[24,6]{1,0} all-gather-start(%d), replica_groups={{0,2},{1,3}}, dimensions={0}
  %permute = s32[3]{0} collective-permute(%e), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %sum = f32[24,6]{1,0} add(%f, %g)
}
"""
LOOPS = """
%inner (p: s32[]) -> s32[] {
  %one = f32[5]{0} collective-permute(%e), source_target_pairs={{0,2},{2,0}}
}

%outer (p: s32[]) -> s32[] {
  %w = s32[] while(%p), condition=%less, body=%inner, metadata={op_name="call.3/counter_4"}
  %c = s32[] conditional(%p), branch_computations={%first, %second}, metadata={op_name="counter_5"}
}

%less (p: s32[]) -> pred[] {
}

%first (p: s32[]) -> s32[] {
}

%second (p: s32[]) -> s32[] {
  %two = f32[7]{0} all-reduce(%e), replica_groups={{0,1,2,3}}
}

ENTRY %main (p: s32[]) -> s32[] {
  %w = s32[] while(%p), condition=%less, body=%outer, KNOWN
}
"""


def test_collectives_by_kind_with_the_elements_and_bytes_of_each_array():
    found = [(each.kind, each.arrays, each.groups.tolist(), each.times) for each in collectives(TEXT, 4)]
    assert found == [
        ("all-reduce", [(1, 4), (16, 64), (12, 24)], [[0, 1], [2, 3]], 1),
        ("all-gather", [(144, 576)], [[0, 2], [1, 3]], 1),
        ("collective-permute", [(3, 12)], [[0, 1], [1, 2], [2, 3], [3, 0]], 1),
    ]


@pytest.mark.parametrize(
    ("more", "groups"), [("", [[0, 1, 2, 3]]), (", use_global_device_ids=true", [[0], [1], [2], [3]])]
)
def test_groups_of_replicas_have_all_devices(more: str, groups: list[list[int]]):
    """No program of JAX has them, but a submission could write one that exchanges more than it seems to."""
    line = f"%a = f32[9] all-reduce(%p), channel_id=1, replica_groups={{{{0}},{{1}},{{2}},{{3}}}}{more}"
    (found,) = collectives(f"ENTRY %main (p: f32[9]) -> f32[9] {{\n  {line}\n}}", 4)
    assert found.groups.tolist() == groups


def test_loops_and_branches_multiply():
    rates = {"counter_4": [Fraction(5, 2)], "counter_5": [Fraction(2, 3), Fraction(1, 3)]}
    text = LOOPS.replace("KNOWN", 'backend_config={"known_trip_count":{"n":"6"}}')
    assert [(each.kind, each.size, each.hops(4), each.times) for each in collectives(text, 4, rates)][:1] == [
        ("collective-permute", 20, 2, 15)
    ]
    assert [(each.kind, each.times) for each in collectives(text, 4, rates)][1:] == [("all-reduce", 2)]


def test_a_condition_is_evaluated_once_more_than_its_loop_turns():
    condition = "%less (p: s32[]) -> pred[] {\n"
    inside = f"{condition}  %three = f32[3]{{0}} all-reduce(%e), replica_groups={{{{0,1,2,3}}}}\n"
    text = LOOPS.replace(condition, inside).replace("KNOWN", 'backend_config={"known_trip_count":{"n":"6"}}')
    rates = {"counter_4": [Fraction(5)], "counter_5": [Fraction(1), Fraction(0)]}
    found = [each.times for each in collectives(text, 4, rates) if each.size == 12]
    assert sorted(found) == [7, 6 * (5 + 1)], "of the outer loop, and of the inner one in each of its turns"


def test_a_collective_in_a_loop_without_a_counter_is_not_counted():
    with pytest.raises(UncountableError, match="cannot be counted"):
        collectives(LOOPS, 4, {})


@pytest.mark.parametrize("times", [32, 33])
def test_small_arrays_are_few_also_beside_a_large_one(times: int):
    sizes = ((1, 4), (1000, 4000))
    execution = SimpleNamespace(collectives=[SimpleNamespace(arrays=sizes, times=Fraction(times))])
    assert measures.small_ones_count(execution) is (times > 32)


@pytest.mark.parametrize(("taken", "more"), [(90, 0), (130, 30)])
def test_exchanged_bytes_are_those_between_places_along_the_last_axis_and_those_taken_and_not_returned(
    monkeypatch: pytest.MonkeyPatch, taken: int, more: int
):
    monkeypatch.setattr(measures, "_bytes_on_device", lambda execution: taken)
    monkeypatch.setattr(measures, "_bytes_left_out", lambda execution: 100)
    execution = SimpleNamespace(collectives=collectives(TEXT, 4), compiled=SimpleNamespace(mesh=(2, 2)))
    assert measures.MEASURES["exchanged_bytes"](execution) == 4 + 64 + 24 + 12 + more


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("call.3/written_0", True),
        ("call.3/(written_0:written_12)", True),
        ("(call.3/written_0:call.4/written_1)", True),
        ("dot.3", False),
        ("(reduce.12:call.3/written_0)", False),
        ("call.3/(written_0:reduce.12)", False),
    ],
)
def test_only_collectives_that_the_program_calls_are_written(name: str, written: bool):
    text = f'ENTRY %main (p: f32[9]) -> f32[9] {{\n  %a = f32[9]{{0}} all-reduce(%p), metadata={{op_name="{name}"}}\n}}'
    assert [each.written for each in collectives(text, 4)] == [written]
    execution = SimpleNamespace(collectives=collectives(text, 4), compiled=SimpleNamespace(mesh=(4,)))
    assert measures.MEASURES["exchanged"](execution)["written"] == 36 * written


def test_collectives_that_run_more_than_once():
    text = LOOPS.replace("KNOWN", 'backend_config={"known_trip_count":{"n":"6"}}')
    rates = {"counter_4": [Fraction(5, 2)], "counter_5": [Fraction(2, 3), Fraction(1, 3)]}
    execution = SimpleNamespace(collectives=collectives(text, 4, rates), compiled=SimpleNamespace(mesh=(4,)))
    found = measures.MEASURES["exchanged"](execution)
    assert found["in_loops"] == found["others"] + found["all_reduce"] == 15 * 20 + 2 * 28
    once = [dataclasses.replace(each, times=Fraction(1)) for each in execution.collectives]
    assert measures.MEASURES["exchanged"](SimpleNamespace(collectives=once))["in_loops"] == 0
