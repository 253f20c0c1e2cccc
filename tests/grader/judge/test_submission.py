"""Reading a submission: its text and its imports, before any of it runs."""

import pytest

from commandline.errors import UsageError
from grader.course import catalog
from grader.judge import submission

pytestmark = pytest.mark.fast

PROBLEM = catalog.find("05")


def test_reads_the_file_and_the_course_modules_it_imports(tmp_path):
    (tmp_path / "mine.py").write_text("from p03_causal_mha import CausalMHA\n")
    (tmp_path / "p03_causal_mha.py").write_text("import os\n")
    (tmp_path / "p07_next_token_loss.py").write_text("not imported\n")
    source = submission.read(PROBLEM, tmp_path / "mine.py")
    assert source.filename == "mine.py"
    assert list(source.sources) == ["p05_gpt_block", "p03_causal_mha"]


def test_a_byte_order_mark_is_removed(tmp_path):
    (tmp_path / "x.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    assert submission.read(PROBLEM, tmp_path / "x.py").sources[PROBLEM.name] == "x = 1\n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a\0b", "is a binary file, not Python text .zero byte at offset 1"),
        (b"# caf\xe9", "is not UTF-8 text .offset 5"),
        (b"#" * (2 << 20), "is larger than 1 MiB, the size limit"),
    ],
)
def test_a_file_that_is_not_python_text(tmp_path, data, says):
    (tmp_path / "x.py").write_bytes(data)
    with pytest.raises(submission.UnreadableSubmissionError, match=says):
        submission.read(PROBLEM, tmp_path / "x.py")


def test_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        submission.read(PROBLEM, tmp_path / "x.py")
    with pytest.raises(UsageError, match="is a folder"):
        submission.read(PROBLEM, tmp_path)
