"""`grade doctor` reports the isolation of this machine and how to obtain what is missing."""

from tests.conftest import Grade


def test_a_missing_layer_is_reported_with_its_remedy(grade: Grade):
    assert "strict: " in grade("doctor").out
    out = grade("doctor", GRADE_WITHOUT="landlock").out
    assert "partial: " in out
    assert "5.13" in out
