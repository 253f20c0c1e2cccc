"""What a class's results say of secret cases: the numbers are in the teacher's database, and nowhere else."""

from pathlib import Path

import pytest

from grader.batch import command, listing
from grader.batch.options import BatchOptions
from grader.course.seed import read_seed
from studio.class_results import ClassResults
from tests.grader.batch.conftest import GOOD, WRONG, Submit, rows
from tests.grader.judge.test_public_errors import ENTRY, SEES, numbers

# The first case of a check is the simplest one, and the same for each seed. The others are secret.
HOSTILE = f"""{GOOD}
right = next_token_loss
{ENTRY}
    text = 'LEAK ' + {SEES} + '.'
    print(text)
    if logits.shape == (4, 5):
        return right(logits, token_ids, pad_id)
    raise type(text, (ValueError,), {{}})(text)
"""
PRIVATE = {"results.sqlite", ".lock"}


@pytest.mark.thorough
def test_only_the_database_repeats_what_a_process_with_secret_cases_said(submit: Submit, seed: Path, tmp_path: Path):
    """One submission says what it sees in the type and text of exceptions and in its output; one is wrong."""
    submit("wrong", WRONG)
    folder, out, pages = submit("hostile", HOSTILE), tmp_path / "results", tmp_path / "feedback"
    out.mkdir()  # so that it is not the batch that keeps other users out
    formats = ("gradescope", "junit", "text", "canvas")
    printed = list(command.batch(folder, out, BatchOptions(seed_file=seed, feedback=pages, formats=formats, jobs=1)))
    files = [path for place in (out, pages) for path in place.rglob("*") if path.is_file() and path.name not in PRIVATE]
    assert {"results.csv", "summary.html", "hostile.html", "hostile.json"} <= {path.name for path in files}
    texts = {path.name: path.read_text() for path in files}
    texts |= {"the studio": ClassResults(out).article(), "the terminal": "\n".join(printed)}
    secret = numbers(read_seed(seed)) - numbers(0)
    assert secret
    for name, text in texts.items():
        assert not [number for number in secret if number in text], name
        assert "expected" not in text, name
    assert rows(out)["wrong"]["message"].endswith(": a number differs from the reference's")
    assert "LEAK" in rows(out)["hostile"]["message"], "the same code on public cases"

    listed = "\n".join(listing.lines(out, listing.Filter()))
    assert "expected" in listed, "the teacher sees the numbers"
    database = out / "results.sqlite"
    assert any(number.encode() in database.read_bytes() for number in secret), "so the attack works"
    assert database.stat().st_mode & 0o077 == 0
