"""Notebooks as submissions."""

import json

import pytest

from grader.judge import notebook
from tests.conftest import ROOT, Grade

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()


def cells(*texts: str, tags: dict[int, list[str]] | None = None) -> bytes:
    found = [{"cell_type": "markdown", "source": ["# Title\n"], "metadata": {}}]
    for number, text in enumerate(texts):
        metadata = {"tags": (tags or {}).get(number, [])}
        found.append(
            {"cell_type": "code", "source": text.splitlines(keepends=True), "metadata": metadata, "outputs": []}
        )
    return json.dumps({"cells": found, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


def test_definitions_count_and_magics_go():
    text, said = notebook.source(
        cells("%load_ext x\nimport jax\nT = 3\n", "def f(x):\n    return x\n", "print(f(1 / 0))", "%%bash\nrm -rf /\n"),
        ["f"],
    )
    assert text.split() == ["import", "jax", "T", "=", "3", "def", "f(x):", "return", "x"]
    assert "print" not in text
    assert "%" not in text
    assert "bash" not in text
    assert said == "of the notebook's 4 code cells, the definitions in 2, 3 are graded; lines with magics are left out"


def test_tags_decide():
    text, said = notebook.source(cells("def f(): return 1", "def f(): return 2", tags={0: ["grade"]}), ["f"])
    assert "return 1" in text
    assert "return 2" not in text
    assert "those tagged 2 are graded" in said


@pytest.mark.parametrize("data", [b"", b"[]", b'{"cells": 3}', b'{"cells": [1]}', b"[" * 100_000, b"\xff"])
def test_what_is_no_notebook(data: bytes):
    with pytest.raises(notebook.NotebookError, match="no notebook that can be read"):
        notebook.source(data, ["f"])


def test_nothing_to_grade():
    with pytest.raises(notebook.NotebookError, match="no cell that defines `f`"):
        notebook.source(cells("print(1)"), ["f"])


def test_a_notebook_is_graded(grade: Grade, tmp_path):
    (tmp_path / "mine.ipynb").write_bytes(cells("%matplotlib inline\n" + GOOD, "next_token_loss(1 / 0)"))
    run = grade("problem", "07", "mine.ipynb")
    assert run.code == 0, run.out + run.err
    assert "Of the notebook's 2 code cells, the definitions in 2 are graded" in run.out
