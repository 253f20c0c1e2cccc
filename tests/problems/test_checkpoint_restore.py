"""What older examples of Orbax are told in problem 25."""

from pathlib import Path

import pytest

from grader.course import catalog
from tests.conftest import Grade

# It restores NumPy arrays, which an update changes in place, into a target whose shapes it does not compare.
OLD_EXAMPLE = """
import orbax.checkpoint as ocp
from flax import nnx


def save(path, model, optimizer):
    ocp.PyTreeCheckpointer().save(path, nnx.state((model, optimizer)))


def restore(path, make):
    graphdef, state = nnx.split(nnx.eval_shape(make))
    restore_args = ocp.checkpoint_utils.construct_restore_args(state)
    return nnx.merge(graphdef, ocp.PyTreeCheckpointer().restore(path, item=state, restore_args=restore_args))
"""


@pytest.mark.thorough
def test_a_restore_with_a_target_is_not_told_that_it_has_none(grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text(OLD_EXAMPLE)
    report = grade("problem", "25", "mine.py", "--json").json
    assert [check["name"] for check in report["checks"] if check["verdict"] != "PASS"] == ["another width refused"]
    idea = next(item for item in catalog.misconceptions(catalog.find("25")) if "item=target" in "".join(item.replace))
    assert report["misconception"]["name"] == idea.name
    assert "even with `item=`" in idea.says
