"""Several assistants: a results folder that a group shares, and two folders that become one."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.batch import deadlines, identity
from grader.batch.records import Person, StoredAttempt
from grader.batch.results import Results
from grader.batch.store import Store
from tests.conftest import ROOT, Grade
from tests.grader.batch.conftest import NAME, rows

pytestmark = pytest.mark.fast


def filled(folder: Path, *people: Person, seed: str = "1") -> Path:
    """A results folder in which each of these learners has a submission."""
    store = Store(folder)
    store.remember_intake(people, [(people[0].learner, "notes.txt", "is no file of a problem")])
    for score, person in enumerate(people, 3):
        attempt = StoredAttempt(
            person.learner, NAME, "a", "k", "f.py", "FAIL", score, 6, sources={NAME: person.learner}
        )
        store.put(lambda learner, own: deadlines.settle(own, [learner], None, best=True), attempt)
        store.request_regrade(person.learner, NAME, "x")
    store.publish()
    store.remember("seed", seed)
    store.write_tables()
    store.close()
    return folder


ADA, BOB, CYD = Person("ada (17)", ("17",)), Person("bob (18)", ("18",)), Person("cyd (19)", ("19",))


def test_two_folders_of_other_learners_become_one(grade: Grade, tmp_path: Path):
    one, other = filled(tmp_path / "one", ADA), filled(tmp_path / "other", BOB, CYD, seed="2")
    run = grade("results", one, "--add", other)
    assert (run.code, run.err) == (0, "")
    assert "2 learners of " in run.out
    assert "graded with another seed, so `grade batch` will grade them again" in run.out
    assert {name: row["score"] for name, row in rows(one).items()} == {
        "ada (17)": "3",
        "bob (18)": "3",
        "cyd (19)": "4",
    }
    store = Results(one)
    assert store.people() == {person.learner: person for person in (ADA, BOB, CYD)}
    assert len(store.regrades()) == 3
    assert {slot: mark.mark for slot, mark in store.published().items()} == {
        ("ada (17)", NAME): 3, ("bob (18)", NAME): 3, ("cyd (19)", NAME): 4,
    }  # fmt: skip
    assert [attempt.sources for attempt in store.attempts("cyd (19)", NAME)] == [{NAME: "cyd (19)"}]
    assert len(store.unused()) == 2
    store.close()
    assert set(rows(other)) == {"bob (18)", "cyd (19)"}, "the other folder stays as it is"


@pytest.mark.parametrize("theirs", [ADA, Person("Lovelace", ("17",)), Person("17", ())])
def test_a_learner_of_both_folders_is_an_error(tmp_path: Path, theirs: Person):
    one, other = filled(tmp_path / "one", ADA), filled(tmp_path / "other", theirs, BOB)
    with pytest.raises(UsageError, match="both folders have"):
        identity.add(one, other)
    assert set(rows(one)) == {"ada (17)"}
    with pytest.raises(UsageError, match="is the same folder"):
        identity.add(one, tmp_path / "other" / ".." / "one")
    with pytest.raises(UsageError, match="contains no results"):
        identity.add(one, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="modes are those of Unix")
def test_modes_are_the_owners_choice(tmp_path: Path):
    folder = filled(tmp_path / "results", ADA)
    database = folder / "results.sqlite"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    database.chmod(0o660)
    Store(folder).close()
    assert stat.S_IMODE(database.stat().st_mode) == 0o660
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    assert stat.S_IMODE((filled(shared, ADA) / "results.sqlite").stat().st_mode) == 0o660


GROUP, FIRST, SECOND, STRANGER = 20100, 20101, 20102, 20103
OPEN = (
    "import os, sys, tempfile; from pathlib import Path\n"
    "from grader.batch.results import Results; from grader.batch.store import Store\n"
    "with tempfile.TemporaryDirectory() as name:  # imports what this user may not read\n"
    "    store = Store(Path(name)); store.write_tables(); store.close(); Results(Path(name)).close()\n"
    "os.setgroups([]); os.setgid(int(sys.argv[4])); os.setuid(int(sys.argv[3])); os.umask(0o007)\n"
    "store = (Store if sys.argv[2] == 'write' else Results)(Path(sys.argv[1]))\n"
    "if sys.argv[2] == 'write': store.remember('by', sys.argv[3]); store.write_tables()\n"
    "print(store.fact('by')); store.close()"
)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that a group may use, below one that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "shared"
        folder.mkdir()
        os.chown(folder, FIRST, GROUP)
        folder.chmod(0o2770)
        yield folder


def as_user(user: int, group: int, folder: Path, what: str) -> str:
    """What a user gets who opens the results, or the error."""
    run = subprocess.run(
        [sys.executable, "-c", OPEN, str(folder), what, str(user), str(group)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.strip() or run.stderr.strip().splitlines()[-1]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="becomes other users")
def test_a_shared_folder_stays_shared(shared_folder: Path):
    for user in (FIRST, SECOND, FIRST, SECOND):
        assert as_user(user, GROUP, shared_folder, "write") == str(user)
        assert as_user(SECOND, GROUP, shared_folder, "read") == str(user)
    shared_folder.chmod(0o2775)
    for what in ("read", "write"):
        message = as_user(STRANGER, STRANGER, shared_folder, what)
        assert "belongs to another user, and you may not" in message
        assert what in message
