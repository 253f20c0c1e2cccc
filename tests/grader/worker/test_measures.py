"""What is read from the text of a compiled program."""

from types import SimpleNamespace

import pytest

from grader.worker.measures import MEASURES, collectives

pytestmark = pytest.mark.fast

TEXT = """
  %all-reduce.1 = (f32[], f32[1,16]{1,0}, /*index=2*/bf16[6,2]{1,0}) all-reduce(%a, %b, %c), replica_groups={{0,1},{2,3}}
  %all-gather-start = f32[24,6]{1,0} all-gather-start(%d), replica_groups={{0,2},{1,3}}, dimensions={0}
  %permute = s32[3]{0} collective-permute(%e), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %sum = f32[24,6]{1,0} add(%f, %g)
"""
COMPILED = SimpleNamespace(text=TEXT, devices=list(range(4)), mesh=(2, 2))


def test_collectives_by_kind_with_the_elements_and_bytes_of_each_array():
    found = [(kind, arrays, groups.tolist()) for kind, arrays, groups in collectives(COMPILED)]
    assert found == [
        ("all-reduce", [(1, 4), (16, 64), (12, 24)], [[0, 1], [2, 3]]),
        ("all-gather", [(144, 576)], [[0, 2], [1, 3]]),
        ("collective-permute", [(3, 12)], [[0, 1], [1, 2], [2, 3], [3, 0]]),
    ]


def test_exchanged_bytes_are_those_between_places_along_the_last_axis():
    assert MEASURES["exchanged_bytes"](COMPILED) == 4 + 64 + 24 + 12
