"""The pages of feedback: what a learner reads, with the secret cases and without them."""

import zipfile
from pathlib import Path

import html5lib
import pytest

from commandline.errors import UsageError
from grader.batch import command
from grader.batch.options import BatchOptions
from tests.grader.batch.conftest import GOOD, NAME, WRONG, Submit, table, zipped

BROKEN = "import jax\n\n\ndef next_token_loss(logits, token_ids, pad_id=-1):\n    raise ValueError(f'{logits}')\n"


@pytest.fixture
def handed_in(submit: Submit) -> Path:
    submit("Ada", GOOD)
    submit("<b>Eve", WRONG, "final copy.txt")
    submit("<b>Eve", WRONG)
    return submit("Zoë", BROKEN)


def feedback(handed_in: Path, tmp_path: Path, *, show_cases: bool) -> dict[str, str]:
    """The pages by file name, each parsed strictly."""
    folder = tmp_path / "feedback"
    options = BatchOptions(feedback=folder, show_cases=show_cases)
    assert str(folder) in list(command.batch(handed_in, tmp_path / "results", options))
    pages = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.html")}
    for page in pages.values():
        html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
        assert "<script" not in page
        assert "<b>Eve" not in page
    return pages


def test_with_and_without_the_secret_cases(handed_in: Path, tmp_path: Path):
    concealed = feedback(handed_in, tmp_path, show_cases=False)
    assert sorted(concealed) == ["Ada.html", "Zoë.html", "_b_Eve.html"]
    pages = {row["learner"]: row["page"] for row in table(tmp_path / "feedback" / "index.csv")}
    assert pages["<b>Eve"] == "_b_Eve.html"
    eve = concealed["_b_Eve.html"]
    for text in ("Results of &lt;b&gt;Eve", "targets not shifted", "a number differs", "Not used: final copy.txt"):
        assert text in eve
    for text in ("expected", "Smallest failing case", 'class="grid', "Next:"):
        assert text not in eve
    assert "ValueError" in concealed["Zoë.html"]
    assert "[[" not in concealed["Zoë.html"], "the exception's text holds a case"
    assert "PASS" in concealed["Ada.html"]

    shown = feedback(handed_in, tmp_path, show_cases=True)
    for text in ("targets not shifted", "Smallest failing case found", 'class="grid', "expected"):
        assert text in shown["_b_Eve.html"]
    assert shown["Ada.html"] == concealed["Ada.html"]
    assert f"{NAME}.py, line 5" in shown["Zoë.html"]


WORKSHEET = """Identifier,"Full name","Email address",Grade,"Maximum Grade","Last modified (submission)"
Participant 17,"Ada Lovelace",ada@x.org,,100.00,-
Participant 18,"Zoë Quinn",zoe@x.org,,100.00,-
Participant 19,"Grace_B. Hopper/3",grace@x.org,,100.00,-
"""


def imported(path: Path) -> dict[int, tuple[str, str]]:
    """What Moodle's importer of feedback files finds: the name and the text of the file by participant."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            folder, file = name.split("/")
            _, number, plugin, subtype, rest = folder.split("_", 4)
            assert (plugin, subtype, rest) == ("assignsubmission", "file", "")
            found[int(number)] = (file, archive.read(name).decode())
    return found


@pytest.mark.thorough
def test_moodle_gets_the_pages_back(tmp_path: Path):
    out, worksheet = tmp_path / "results", tmp_path / "worksheet.csv"
    worksheet.write_text(WORKSHEET, encoding="utf-8")
    folders = {"Ada Lovelace_17_assignsubmission_file_": GOOD, "Zoë Quinn_18_assignsubmission_file": WRONG}
    archive = zipped(tmp_path / "m.zip", {f"{folder}/{NAME}.py": text for folder, text in folders.items()})
    lines = list(command.batch(archive, out, BatchOptions(formats=("moodle",), roster=worksheet)))
    assert str(out / "moodle.zip") in lines
    pages = imported(out / "moodle.zip")
    assert {number: file for number, (file, _) in pages.items()} == dict.fromkeys((17, 18, 19), "feedback.html")
    for number, text in {17: "Results of Ada Lovelace", 18: "targets not shifted", 19: "not handed in"}.items():
        assert text in pages[number][1]
    with zipfile.ZipFile(out / "moodle.zip") as made:
        assert f"{next(iter(folders))}/feedback.html" in made.namelist(), "the folder that Moodle's archive has"
    lines = list(command.batch(archive, out, BatchOptions()))
    assert "moodle.zip is of an earlier batch, and is now earlier/moodle.zip." in lines


def test_moodle_needs_its_numbers(submit: Submit, tmp_path: Path):
    with pytest.raises(UsageError, match="--format moodle needs the participants' numbers"):
        list(command.batch(submit("ada"), tmp_path / "results", BatchOptions(formats=("moodle",))))


def test_usage_errors(handed_in: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="--show-cases needs --feedback"):
        list(command.batch(handed_in, tmp_path / "results", BatchOptions(show_cases=True)))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file; choose a folder for the feedback"):
        list(command.batch(handed_in, tmp_path / "results", BatchOptions(feedback=tmp_path / "file")))
    assert not (tmp_path / "results").exists(), "nothing is graded first"
