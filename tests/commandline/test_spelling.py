"""Suggestions for mistyped names, also when a submission chooses the names."""

import pytest

from commandline.spelling import nearest

pytestmark = pytest.mark.fast


def test_the_most_similar_names_come_first():
    assert nearest("Kernal", ["bias", "kernels", "kernel"], 2) == ["kernel", "kernels"]
    assert nearest("kernel", ["scale"]) == []


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch):
    compared = []
    monkeypatch.setattr(
        "commandline.spelling.get_close_matches", lambda word, names, **options: compared.extend(names) or []
    )
    nearest("model.kernel", [f"model.kernel{number}" for number in range(4096)])
    nearest("x" * 5000, ["x" * 4999])
    nearest("x", ["x" * 4999])
    assert len(compared) == 256
