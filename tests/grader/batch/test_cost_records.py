"""The records of a class show figures under chosen names, and nothing of those who chose none."""

from pathlib import Path

import pytest

from grader.batch.cost_records import pseudonym
from grader.course import catalog
from tests.conftest import Grade

PROBLEM = catalog.find("02")
RIGHT = catalog.text_of(catalog.solution_path(PROBLEM))
OTHER = catalog.text_of(next(path for path in catalog.styles(PROBLEM) if "logsumexp" in path.name))


@pytest.mark.thorough
def test_a_page_of_those_who_want_it(grade: Grade, tmp_path: Path):
    files = {
        "Ada Lovelace": f"# pseudonym: <b>\n# pseudonym: heron\n{RIGHT}",
        "Bob Brown": f"# pseudonym: swift\n# A comment\n{RIGHT}",
        "Cy Young": f"# pseudonym: owl\n{OTHER}",
        "Dan Dare": RIGHT,
        "Eve Wrong": "# pseudonym: wren\n" + RIGHT.replace("axis=-1", "axis=0"),
    }
    for name, text in files.items():
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / f"{PROBLEM.name}.py").write_text(text)
    command = ("batch", "class", "--out", "results", "--accept-isolation", "partial")
    run = grade(*command, "--records")
    assert run.code == 0, run.err
    page = (tmp_path / "results" / "records.html").read_text(encoding="utf-8")
    assert "heron, swift, the reference" in page, "equal programs are one row"
    assert "owl" in page
    assert not [name for name in ("Ada", "Bob", "Cy ", "Dan", "Eve", "wren") if name in page]
    (tmp_path / "results" / "records.html").unlink()
    assert grade(*command).code == 0
    assert not (tmp_path / "results" / "records.html").exists()


def test_a_pseudonym_stands_in_the_head_of_a_file():
    assert pseudonym("# pseudonym:  Green Heron \nx = 1\n") == "Green Heron"
    assert pseudonym('"""Text."""\n#pseudonym: a-b.c\n') == "a-b.c"
    assert pseudonym("# pseudonym: <script>\n") == ""
    assert pseudonym("\n" * 9 + "# pseudonym: late\n") == ""
