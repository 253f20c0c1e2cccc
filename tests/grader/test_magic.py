"""The magics, in a real notebook."""

import nbformat
from nbclient import NotebookClient

from tests.conftest import NO_SHIFT, ROOT, misconception_name


def test_a_cell_is_graded_in_a_process_of_its_own(tmp_path):
    solution = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
    cells = [
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n%load_ext grader.magic",
        f"%%grade 07\n{solution.replace('token_ids[1:]', 'token_ids[:-1]')}",
        "print('next_token_loss' in globals(), 'jax' in sys.modules)",
        "%grade_hint 07",
        "%grade_page 7",
        "%grade_hint nothing",
        "%play 07",
        "%play 08 a text",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    _, graded, alone, hint, page, mistake, played, unplayed = (cell.outputs for cell in notebook.cells)
    article = graded[0].data["text/html"]
    assert 'class="verdict"' in article
    assert misconception_name("07", NO_SHIFT) in article
    assert alone[0].text == "False False\n"
    assert hint[0].data["text/markdown"].startswith("**Hint 1 of ")
    assert page[0].data["text/markdown"].startswith("# 07")
    assert mistake[0].text.startswith("grade: ")
    assert "%play 07" in article
    assert 'class="exhibit"' in played[0].data["text/html"]  # the play of the cell: there is no file
    assert unplayed[0].text.startswith("grade: ")
