"""Notebooks as submissions: which cells count, and which of their lines are magics."""

import json
import time

import pytest

from grader.course import imports
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
        f"of the notebook's 4 code cells, cells 2, 3 are graded; {notebook.RULE}; lines with magics are left out"
    )


def test_a_tagged_cell_counts_whole_and_its_entry_counts_nowhere_else():
    cells = ("import jax", "def f(): return 1\nf()", "def f(): return 2\nf(2)")
    text, _ = notebook.source(notebook_of(*cells, tags={1: ["grade"]}), ["f"])
    assert text == "import jax\n\ndef f(): return 1\nf()\n"


TRY = "try:\n    import a\nexcept ImportError:\n    a = None"
COUNTED = {
    "imports beside a print": ("import jax\nprint(jax.devices())\njax.config.update('x', 1)", "import jax"),
    "two statements on a line": ("import jax; print(1)  # é", "import jax; pass  # é"),
    "a helper with a demo call": ("def g():\n    return 1\n\ng()", "def g():\n    return 1\n"),
    "a magic that assigns": ("x = %timeit -o g()\nfiles = !ls\nT = 1", "T = 1"),
    "a timed cell": ("%%capture\n%%time\nT = 1", "T = 1"),
    "a cell for the grader": ("%%grade 07\nT = 1", "T = 1"),
    "another language": ("%%bash\nT=1", ""),
    "a constant of a demo": ("x = make()\nshape = x.shape", ""),
    "what an entry uses": ("SIZE = int('3')\nh = partial(max, SIZE)\nx = h()", "SIZE = int('3')\nh = partial(max, "
        "SIZE)"),
    "a parameter's name in a demo": ("y = make()", ""),
    "a table in a loop": ("TABLE = {}\nfor i in range(3):\n    TABLE[i] = 1", "TABLE = {}\nfor i in range(3):\n    "
        "TABLE[i] = 1"),
    "an import that may be missing": (TRY, TRY),
    "a class that is changed": ("class A:\n    pass\nA.n = int('1')", "class A:\n    pass\nA.n = int('1')"),
}  # fmt: skip
ENTRY = "def f(y):\n    return h(y, TABLE, A)"


@pytest.mark.parametrize("name", COUNTED)
def test_what_counts_of_a_cell(name: str):
    cell, counted = COUNTED[name]
    text, _ = notebook.source(notebook_of(cell, ENTRY), ["f"])
    assert text == (f"{counted}\n\n" if counted else "") + ENTRY + "\n"


def test_the_magic_grades_what_the_notebook_would_be_graded_by():
    earlier = ["import jax\nprint(1)", "%%grade 07\ndef f(): return old", "%%grade 07\ndef f( return 2"]
    assert notebook.of_session(earlier, "def f(): return jax\nf()", ["f"]) == "import jax\n\ndef f(): return jax\n"


def test_of_earlier_attempts_the_magic_grades_the_last():
    earlier = ["%%grade 07\ndef f(): return 1\nf = jit(f)", "def g(): return f", "def f(): return 2", "f = jit(f)"]
    assert notebook.of_session(earlier, "", ["f", "g"]) == "def g(): return f\n\ndef f(): return 2\n\nf = jit(f)\n"


def test_a_notebook_of_an_older_format():
    cells = [{"cell_type": "code", "input": ["import jax\n", "def f(): pass"], "outputs": []}]
    data = json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3, "metadata": {}}).encode()
    assert notebook.source(data, ["f"])[0] == "import jax\ndef f(): pass\n"


def test_outputs_of_any_size_are_not_read():
    cells = [
        {"cell_type": "code", "source": "TEXT = '\"outputs\": ['", "outputs": [{"png": ['A]}\\"' * (3 << 20)]}] * 2}
    ]
    cells += [{"cell_type": "markdown", "source": "", "attachments": {"image.png": {"image/png": "A" * (4 << 20)}}}]
    cells += [{"cell_type": "code", "outputs": [], "source": "def f(): return TEXT"}]
    data = json.dumps({"cells": cells, "metadata": {"widgets": {"state": [float("nan")]}}}).encode()
    assert len(data) > 30 << 20
    assert notebook.source(data, ["f"])[0] == f"{cells[0]['source']}\n\ndef f(): return TEXT\n"


def test_a_notebook_that_is_large_without_its_outputs():
    cells = [{"cell_type": "markdown", "source": "A" * (9 << 20)}]
    with pytest.raises(notebook.NotebookError, match="larger than 8 MiB, the size limit, even without its outputs"):
        notebook.source(json.dumps({"cells": cells}).encode(), ["f"])


@pytest.mark.thorough
def test_outputs_in_many_pieces_take_little_time():
    start = time.monotonic()
    with pytest.raises(notebook.NotebookError, match="4,194,304 strings and brackets"):
        notebook.source(b'{"cells": [{"outputs": [' + b"[]," * (3 << 20), ["f"])
    assert time.monotonic() - start < 20


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
    assert imports.parse(text) is not None


def test_a_magic_on_several_lines():
    text, _ = notebook.source(notebook_of("!pip install \\\n    flax \\\n    optax\ndef f(): pass"), ["f"])
    assert text == "def f(): pass\n"


def test_a_magic_that_is_the_whole_body_of_a_block():
    cell = "import sys\nif 'google.colab' in sys.modules:\n    !pip install flax\ndef f(): pass"
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
        "%x\ndef f(): pass\nx = 1" + " + 1" * 3_000,
        "def f(): pass\n%x\n" + "x = [1, 2, 3]\n" * 60_000,
    ],
    ids=["brackets", "unary minus", "quotes", "magics", "long lines", "a long sum", "longer than what is parsed"],
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
    assert "Of the notebook's 2 code cells, cell 2 is graded;" in run.out


def test_a_file_that_is_made_to_be_slow_is_refused_at_once():
    """A string without an end, and a line of blanks: each would take hours if every character began a search."""
    with pytest.raises(notebook.NotebookError, match="is not a readable notebook"):
        notebook.source(b'"' + b'\\"' * 300_000, ["f"])
    blank = "def" + " " * 300_000 + "x y\n"
    with pytest.raises(notebook.NotebookError, match="has no cell that defines"):
        notebook.source(json.dumps({"cells": [{"cell_type": "code", "source": blank}]}).encode(), ["f"])
