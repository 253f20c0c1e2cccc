"""`grade doctor` reports the isolation of this machine and how to obtain what is missing."""

import pytest

from grader.cli import doctor
from grader.isolation.level import STRONG_LAYERS, Isolation, Level
from tests.conftest import Grade


def test_all_is_fine_here(grade: Grade):
    run = grade("doctor")
    assert run.code == 0, run.out
    for subject in ("python", "jax", "devices", "isolation", "cache", "course", "workspace"):
        assert f"ok    {subject}" in run.out
    assert "strict: " in run.out


def test_a_missing_layer_is_reported_with_its_remedy(grade: Grade):
    out = grade("doctor", GRADE_WITHOUT="landlock").out
    assert "CHECK isolation         partial: " in out
    assert "5.13" in out


def test_what_makes_grading_impossible_decides_the_exit_code(grade: Grade):
    """A missing layer does not, and what is examined after a serious finding does not hide it."""
    broken = grade("doctor", JAX_PLATFORMS="no_such_platform")
    assert "CHECK devices           JAX does not start" in broken.out
    assert broken.out.splitlines()[-1].startswith("ok    resident")
    assert broken.code == 1
    assert grade("doctor", GRADE_WITHOUT="landlock").code == 0


def test_strict_isolation_is_fine():
    finding = doctor.isolation_finding(Isolation.measured(STRONG_LAYERS, []))
    assert finding.fine
    assert not finding.remedy


@pytest.mark.parametrize("layer", STRONG_LAYERS)
def test_a_missing_layer_has_its_remedy(layer: str):
    layers = [other for other in STRONG_LAYERS if other != layer]
    finding = doctor.isolation_finding(Isolation.measured(layers, ["reads a file"]))
    assert not finding.fine
    assert finding.state.startswith("partial: ")
    assert finding.remedy.startswith(doctor.REMEDIES[layer])
    assert "got through" not in finding.remedy, "the missing layer explains it"


def test_an_attack_that_gets_through_all_layers_is_not_fine():
    """`grade doctor` used to print `ok` here, because no layer is missing."""
    isolation = Isolation.measured(STRONG_LAYERS, ["connects"])
    assert isolation.level is Level.PARTIAL
    finding = doctor.isolation_finding(isolation)
    assert not finding.fine
    assert finding.state.endswith("not stopped: connects")
    assert "All layers are active, but an attack that they should stop got through." in finding.remedy
    assert "do not grade code that you do not trust" in finding.remedy
