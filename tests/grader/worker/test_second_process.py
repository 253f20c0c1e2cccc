"""What problem 26 asks for happens in another process: memory does not survive, files do."""

import shutil
from pathlib import Path

from tests.conftest import ROOT, Grade

MEMORY = """
import os
from pathlib import Path

kept = {}


def save(path, *objects):
    Path(path).write_text(str(os.getpid()))
    kept[path] = objects


def resume(path, make, make_loader):
    assert int(Path(path).read_text()) != os.getpid(), "this is the process that saved"
    return kept[path]
"""


def test_what_was_kept_in_memory_is_gone(grade: Grade, tmp_path: Path):
    file = tmp_path / "p26_exact_resume.py"
    file.write_text(MEMORY)
    run = grade("problem", "26", file, "--json").json
    assert run["verdict"] == "ERROR"
    assert "KeyError" in run["checks"][0]["message"]


def test_an_error_in_the_other_process_is_shown_with_its_line(grade: Grade, tmp_path: Path):
    text = (ROOT / "solutions" / "p26_exact_resume.py").read_text()
    file = tmp_path / "p26_exact_resume.py"
    file.write_text(text.replace("    loader = make_loader()\n", "    loader = make_loader(1)\n"))
    run = grade("problem", "26", file, "--json").json
    assert run["verdict"] == "ERROR"
    line = text[: text.index("make_loader()\n")].count("\n") + 1
    assert f"p26_exact_resume.py, line {line}" in run["checks"][0]["message"]


def test_a_process_that_ends_itself_does_not_hang_the_judge(grade: Grade, tmp_path: Path):
    file = tmp_path / "p26_exact_resume.py"
    shutil.copy(ROOT / "solutions" / "p26_exact_resume.py", file)
    file.write_text(
        file.read_text().replace("    loader = make_loader()\n", "    __import__('os')._exit(0)\n    loader = None\n")
    )
    run = grade("problem", "26", file, "--json")
    assert (run.code, run.json["verdict"]) == (1, "ERROR")
