"""`grade doctor` reports the isolation of this machine and how to obtain what is missing."""

from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.requirements import Requirement

from grader.cli import doctor
from grader.handout import project
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


def test_a_version_that_the_course_does_not_work_with(monkeypatch: pytest.MonkeyPatch):
    """A hub image may pin another JAX than the course needs."""
    found = {"jax": "0.9.2", "rich": "9.0", "numpy": "2.5.0rc1"}
    monkeypatch.setattr(doctor, "version", lambda name: found.get(name) or version(name))
    by_subject = {finding.subject: finding for finding in doctor.packages()}
    old, minor = by_subject["jax"], by_subject["rich"]
    assert (old.fine, old.serious, minor.fine, minor.serious) == (False, True, False, False)
    (wish,) = [each for each in map(Requirement, project.metadata().dependencies) if each.name == "jax"]
    assert old.state == f"0.9.2, and the course needs {wish.specifier}"
    assert f"'jax{wish.specifier}'" in old.remedy
    assert by_subject["numpy"].fine
    assert "click" in by_subject
    assert "pyyaml" not in by_subject, "only what says something"


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch):
    def without_flax(name: str) -> str:
        if name == "flax":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", without_flax)
    (flax,) = (finding for finding in doctor.packages() if not finding.fine)
    assert (flax.subject, flax.state, flax.serious) == ("flax", "is not installed", True)
