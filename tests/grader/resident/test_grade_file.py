"""Work on one file without a resident judge: what is read of it, and how often."""

from pathlib import Path

import pytest

from grader.course import catalog
from grader.judge import submission
from grader.judge.options import GradeOptions
from grader.resident import client, grade_file
from grader.resident.messages import Display, GradeRequest

PROBLEM = catalog.find("04")


@pytest.mark.parametrize(
    ("data", "verdict"), [(catalog.stub_text(PROBLEM).encode(), "NOT ATTEMPTED"), (b"\xff\xfe\xfd", "ERROR")]
)
def test_a_file_is_read_once(data: bytes, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save between two readings would give the verdict of one text to another."""
    file, read, asked = tmp_path / f"{PROBLEM.name}.py", [], list[GradeRequest]()
    file.write_bytes(data)
    own = submission.read

    def counted(*arguments: object) -> object:
        read.append(arguments)
        return own(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(submission, "read", counted)
    monkeypatch.setattr(client, "verdict", lambda question, say: asked.append(question))  # there is no judge
    answer = grade_file.response(PROBLEM, file, GradeOptions(), Display())
    assert answer.verdict == verdict
    assert len(read) == 1
    assert len(asked) == (verdict != "ERROR")
