"""What is stored of a learner: exported for them, and forgotten."""

import json
from pathlib import Path

import pytest

from grader.batch import deadlines
from grader.batch.records import Change, Known, Person, StoredAttempt
from grader.batch.results import Results
from grader.batch.store import Store
from tests.conftest import Grade
from tests.grader.batch.conftest import NAME, rows

pytestmark = pytest.mark.fast
SECRET = "a line that only ada wrote"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results of two learners, with reports and a gradebook."""
    folder = tmp_path / "results"
    store = Store(folder)
    store.remember_intake(
        [Person("ada (17)", ("17",), ("4711",)), Person("bob (18)", ("18",))], [("ada (17)", "x.zip", "is damaged")]
    )
    for learner in ("ada (17)", "bob (18)"):
        sources = {NAME: f"# {SECRET}" if "ada" in learner else "# bob"}
        attempt = StoredAttempt(learner, NAME, "1", "k", "f.py", "FAIL", 3, 6, sources=sources)
        store.put(lambda learner, own: deadlines.settle(own, [learner], None, best=True), attempt)
    store.publish([Change("now", "ada (17)", NAME, "PASS", 6, "FAIL", 3, "x")])
    store.join("ada at home", "ada (17)", ["h"], "one person")
    store.remember_sent("canvas", "7", {"4711": 3})
    store.remember_comments("canvas", "7", {"4711": "a digest", "4712": "another"})
    store.write_tables()
    store.close()
    for name in (
        "internal-errors.log",
        "canvas.csv",
        "moodle.zip",
        "earlier/canvas.csv",
        "gradescope/ada (17).json",
        "gradescope/bob (18).json",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("bob (18)" if "bob" in name else "ada (17)")
    return folder


def test_all_that_is_known_is_exported(grade: Grade, results: Path):
    run = grade("results", results, "--export", "17")
    assert run.code == 0, run.err
    known = json.loads(run.out)
    assert known["person"]["learner"] == "ada (17)"
    assert [attempt["sources"] for attempt in known["attempts"]] == [{NAME: f"# {SECRET}"}]
    assert (known["results"][0]["score"], known["changes"][0]["mark_before"]) == (3, 6)
    assert known["unused"] == [["x.zip", "is damaged"]]
    assert "bob" not in run.out


def test_a_file_of_an_earlier_year_is_forgotten_too(grade: Grade, results: Path):
    store = Store(results)
    store.remember_known([Known(NAME, f"../2025/{name}/07.py", frozenset({1})) for name in ("ada (17)", "17", "adam")])
    store.close()
    assert grade("results", results, "--forget", "ada").code == 0
    stored = Results(results)
    assert [one.name for one in stored.known()] == ["../2025/adam/07.py"]
    assert stored.comments("canvas", "7") == {"4712": "another"}
    stored.close()


def test_who_is_forgotten_is_in_no_file(grade: Grade, results: Path):
    run = grade("results", results, "--forget", "17")
    assert run.code == 0, run.err
    assert "'ada (17)' is deleted from" in run.out
    assert set(rows(results)) == {"bob (18)"}
    for path in (path for path in results.rglob("*") if path.is_file()):
        assert b"ada (17)" not in path.read_bytes(), path
        assert SECRET.encode() not in path.read_bytes(), path
        assert b"4711" not in path.read_bytes(), path
    assert (results / "gradescope" / "bob (18).json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--forget", "cleo"), "has no learner 'cleo'"),
        (("--export", "cleo"), "has no learner 'cleo'"),
        (("--export", "17", "--forget", "18"), "give one at a time"),
    ],
)
def test_a_wrong_request_is_a_sentence_and_deletes_nothing(
    grade: Grade, results: Path, words: tuple[str, ...], said: str
):
    run = grade("results", results, *words)
    assert (run.code, said in run.err) == (2, True), run.err
    assert set(rows(results)) == {"ada (17)", "bob (18)"}
