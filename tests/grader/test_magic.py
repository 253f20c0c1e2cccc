"""The magics, in a real notebook without a terminal."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import NO_SHIFT, ROOT, misconception_name

LOAD = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n%load_ext grader.magic"
RIGHT = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
DOCUMENTED = "print(get_ipython().find_line_magic('page').__doc__)"
FIRST = (ROOT / "solutions" / "p01_token_embedding.py").read_text()
TELLS = """import jax, os
def next_token_loss(logits, token_ids, pad_id):
    raise RuntimeError(f"{jax.devices()} {'XLA_PYTHON_CLIENT_MEM_FRACTION' in os.environ}")
"""
WRONG = RIGHT.replace("token_ids[1:]", "token_ids[:-1]")


def outputs(folder: Path, cells: Sequence[str]) -> list[list[Any]]:
    """What each cell of a notebook shows. The notebook is run in a folder; an exception in a cell fails the test."""
    run = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(run, timeout=120, coalesce_streams=True, resources=where).execute()
    return [cell.outputs for cell in run.cells]


def printed(cell: Sequence[Any]) -> str:
    return "".join(output.text for output in cell if output.output_type == "stream")


def shown(cell: Sequence[Any]) -> str:
    return "".join(output.data["text/html"] for output in cell if output.output_type == "display_data")


def test_a_learner_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")  # the GPU is the notebook's
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9")
    cells = [
        LOAD,
        f"%%grade 07\n{RIGHT}",
        "%grade start work",
        "%page 02",
        "%hint 07",
        "%hint 07",
        f"%%grade 07\n{WRONG}",
        "%progress loss",
        "print('next_token_loss' in globals(), 'jax' in sys.modules)",
        f"%%grade 01\n{FIRST}",
        "%play 01",
        f"%%grade 07\n{TELLS}",
        f"%%grade 07\n{RIGHT}",
        "%progress loss",
        "from pathlib import Path\nfrom p07_next_token_loss import next_token_loss",
        "%grade 07",
        "%grade next",
        f"Path('work', 'p07_next_token_loss.py').write_text('mine = 1')\n{DOCUMENTED}",
        f"%%grade 07\n{RIGHT}",
        f"%unload_ext grader.magic\n{DOCUMENTED}",
    ]
    shows = iter(outputs(tmp_path, cells))
    load, unrecorded, start, page, hint, second, wrong, before, alone, _, played = islice(shows, 11)
    devices, right, after, _, again, following, course, kept, pager = shows
    assert "Isolation: " in printed(load)
    assert "`%grade start` creates one" in printed(load)
    assert "Not recorded" in printed(unrecorded)
    assert str(tmp_path / "work") in printed(start)
    assert all(part in shown(page) for part in ("<svg", "<math", 'data-explorable="', "<script>", "Causal attention"))
    assert ("Hint 1 of " in shown(hint), "Hint 2 of " in shown(second)) == (True, True)
    assert misconception_name("07", NO_SHIFT) in shown(wrong)
    assert "%play 07" in shown(wrong)
    assert "<code>%grade hint 07</code>" in shown(wrong)
    assert "fail" in printed(before)
    assert printed(alone) == "False False\n"
    assert ('class="exhibit"' in shown(played), "&lt;" in shown(played)[:500]) == (True, False)
    assert "RuntimeError: [CpuDevice(id=0)] False" in shown(devices)
    assert 'badge pass">PASS' in shown(right)
    assert "passed" in printed(after)
    assert "`%page NN` shows a page, `%%grade NN` grades the cell" in printed(after)
    assert 'badge pass">PASS' in shown(again)
    assert "Next: problem 02" in printed(following)
    assert "Read `%page 02`, write your code in a cell, grade it with `%%grade 02` above it." in printed(following)
    (other,) = (tmp_path / "work").glob(
        "*.1.py"
    )  # of all files, only the one that was not written by the course is kept
    assert (other.read_text(), other.name in printed(kept)) == ("mine = 1", True)
    assert ("of problem NN" in printed(course), "of problem NN" in printed(pager)) == (True, False)


def test_mistakes_are_one_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    mistakes = {
        "%grade": "Name a problem, such as `%grade 01`",
        "%grade 'start": "No closing quotation",
        "%grade start file": "is a file",
        "%grade watch": "run it in a terminal, or as !",
        "%grade 99": "no problem",
        "%page": "Name a problem",
        "%hint nothing": "no problem",
        "%play 08 a text": "08",
        "%play 07": "`%grade start` creates one",
        "%progress nothing": "No problem matches",
        "%grade 07": "No cell that ran without an error defines `next_token_loss`",
        "%%grade 07\ndef f(": "No cell that ran",
        "%%grade 07\ndef next_token_loss(": "SyntaxError",
        "%%grade 07\ndef next_token_loss(logits, token_ids, pad_id):\n    raise NotImplementedError": " in a cell.",
    }
    _, *cells = outputs(tmp_path, [LOAD, *mistakes])
    for (mistake, sentence), cell in zip(mistakes.items(), cells, strict=True):
        said = printed(cell) or shown(cell)
        assert sentence in said, mistake
        assert (len(cell), "Traceback" in said) == (1, False), mistake


def test_a_hint_without_a_workspace_creates_none(tmp_path: Path):
    _, hint = outputs(tmp_path, [LOAD, "%hint 07"])
    assert "Hint 1 of " in shown(hint)
    assert "Not recorded" in printed(hint)
    assert not (tmp_path / "attempts").exists()


def test_what_is_missing_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADE_WITHOUT", "namespaces,seccomp")
    load, graded = outputs(tmp_path, [LOAD, f"%%grade 07\n{RIGHT}"])
    (said,) = [line for line in printed(load).splitlines() if "Isolation: " in line]
    assert "partial, without namespaces, seccomp. " in said
    assert "do not grade code that you do not trust" in said
    assert 'badge pass">PASS' in shown(graded)


def test_the_cost_of_a_cell(tmp_path: Path):
    function = "def f(x, n):\n    return sum(x @ x.T for _ in range(n))"
    cells = [
        LOAD,
        "import jax.numpy as jnp",
        f"%%cost f x: f32[64,16], n: 3\n{function}",
        f"%%cost 07\n{RIGHT}",
        "%%cost\nx = 1",
    ]
    _, _, own, problem, mistake = outputs(tmp_path, cells)
    assert f"{3 * 2 * 64 * 64 * 16:,}" in shown(own)
    assert "return sum(x @ x.T for _ in range(n))" in shown(own)
    assert "Compared with other correct programs" in shown(problem)
    assert "Name a problem" in printed(mistake)
