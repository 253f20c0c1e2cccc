"""Notebooks as submissions: which cells count, and which of their lines are magics."""

import json
import time

import pytest

from grader.course import catalog
from grader.judge import notebook
from tests.conftest import ROOT, Grade

GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()


def notebook_of(*texts: str, tags: dict[int, list[str]] | None = None) -> bytes:
    """A notebook with a title and these code cells; `tags` by position among the code cells."""
    cells = [{"cell_type": "markdown", "source": ["# Title\n"], "metadata": {}}]
    for number, text in enumerate(texts):
        metadata = {"tags": (tags or {}).get(number, [])}
        cells.append(
            {"cell_type": "code", "source": text.splitlines(keepends=True), "metadata": metadata, "outputs": []}
        )
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


def test_cells_with_definitions_count_and_magics_are_left_out():
    text, note = notebook.source(
        notebook_of(
            "%load_ext x\nimport jax\nT = 3\n", "def f(x):\n    return x\n", "print(f(1 / 0))", "%%bash\nrm -rf /\n"
        ),
        ["f"],
    )
    assert text.split() == ["import", "jax", "T", "=", "3", "def", "f(x):", "return", "x"]
    assert note == (
        "of the notebook's 4 code cells, cells 2, 3, with definitions, are graded; lines with magics are left out"
    )


def test_tagged_cells_count_alone():
    text, note = notebook.source(notebook_of("def f(): return 1", "def f(): return 2", tags={0: ["grade"]}), ["f"])
    assert "return 1" in text
    assert "return 2" not in text
    assert note == "of the notebook's 2 code cells, cell 2, tagged `grade`, is graded"


PYTHON = {
    "a comment that ends in a question": "def f(y):\n    y = 2 * y  # is this right?\n    return y",
    "a line that continues with !=": "def f(a, b):\n    return (a\n        != b)",
    "a line that continues with %": "def f(a, b):\n    return (a\n        % b)",
    "a docstring with a question and a magic": 'def f():\n    """Why?\n\n    %timeit f()\n    really?\n    """',
    "a backslash before !=": "def f(a, b):\n    return a \\\n        != b",
    "an invalid escape": "def f():\n    return '\\d?'",
}


@pytest.mark.parametrize("name", PYTHON)
def test_python_is_left_alone(name: str):
    text, note = notebook.source(notebook_of(PYTHON[name]), ["f"])
    assert text == PYTHON[name] + "\n"
    assert "magics" not in note


@pytest.mark.parametrize("magic", ["%matplotlib inline", "!pip install it's", "?f", "f?", "np.dot??", "%%timeit?"])
@pytest.mark.parametrize("name", PYTHON)
def test_beside_a_magic_python_is_left_alone(magic: str, name: str):
    text, note = notebook.source(notebook_of(f"T = 1\n{magic}\n{PYTHON[name]}\n{magic}"), ["f"])
    assert text == f"T = 1\n{PYTHON[name]}\n"
    assert note.endswith("; lines with magics are left out")
    assert catalog.parse(text) is not None


def test_a_magic_on_several_lines():
    text, _ = notebook.source(notebook_of("!pip install \\\n    flax \\\n    optax\ndef f(): pass"), ["f"])
    assert text == "def f(): pass\n"


def test_a_magic_that_is_the_whole_body_of_a_block():
    cell = "if 'google.colab' in sys.modules:\n    !pip install flax\ndef f(): pass"
    text, _ = notebook.source(notebook_of(cell), ["f"])
    assert text == cell.replace("!pip install flax", "pass") + "\n"


def test_a_syntax_error_beside_a_magic_is_reported_as_such(grade: Grade, tmp_path):
    cell = "%matplotlib inline\ndef next_token_loss(logits, token_ids, pad_id)\n    return 0\n"
    (tmp_path / "mine.ipynb").write_bytes(notebook_of(cell))
    message = grade("problem", "07", "mine.ipynb", "--json").json["checks"][0]["message"]
    assert message.startswith("SyntaxError: expected ':'")


@pytest.mark.parametrize(
    "cell",
    [
        "%x\ndef f(): return " + "(" * 150_000,
        "%x\ndef f(): return " + "-" * 150_000 + "1",
        "%x\ndef f(): pass\n" + '\\"""\n' * 30_000,
        "def f(): pass\n" + "%x\n" * 60_000,
        "def f(): pass\n" + "!" + " " * 190_000 + "\n" + "a" * 800_000,
        "def f(): pass\n%x\n" + "x = [1, 2, 3]\n" * 60_000,
    ],
    ids=["brackets", "unary minus", "quotes", "magics", "long lines", "longer than what is parsed"],
)
def test_hostile_cells_take_little_time(cell: str):
    start = time.monotonic()
    text, _ = notebook.source(notebook_of(cell), ["f"])
    assert "def f()" in text
    assert "%x" not in text
    assert time.monotonic() - start < 10


def test_a_notebook_with_too_much_code():
    with pytest.raises(notebook.NotebookError, match="more than 1 MiB of code"):
        notebook.source(notebook_of("def f(): pass", *["x = [1, 2, 3]\n" * 10_000] * 8), ["f"])


@pytest.mark.parametrize("data", [b"", b"[]", b'{"cells": 3}', b'{"cells": [1]}', b"[" * 100_000, b"\xff"])
def test_files_that_are_not_notebooks(data: bytes):
    with pytest.raises(notebook.NotebookError, match="is not a readable notebook"):
        notebook.source(data, ["f"])


def test_a_notebook_without_the_entry():
    with pytest.raises(notebook.NotebookError, match="has no cell that defines `f`"):
        notebook.source(notebook_of("print(1)"), ["f"])


def test_a_notebook_is_graded(grade: Grade, tmp_path):
    (tmp_path / "mine.ipynb").write_bytes(notebook_of("%matplotlib inline\n" + GOOD, "next_token_loss(1 / 0)"))
    run = grade("problem", "07", "mine.ipynb")
    assert run.code == 0, run.out + run.err
    assert "Of the notebook's 2 code cells, cell 2, with definitions, is graded;" in run.out
