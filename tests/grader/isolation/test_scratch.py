"""Scratch folders are in memory, and are removed whatever a submission left in them and however the judge ended."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.isolation import scratch
from tests.conftest import ROOT, Grade, boot

SOLUTION = ROOT / "solutions" / "p07_next_token_loss.py"

# Run in an empty folder, these programs fill it with a tree that is hard to remove.
TREES = {
    "1,500 nested folders": "for _ in range(1500):\n    os.mkdir('inner')\n    os.chdir('inner')\n",
    # Deeper than the longest path, than Python can recurse and than a process can open descriptors.
    "100,000 nested folders": "for _ in range(100_000):\n    os.mkdir('inner')\n    os.chdir('inner')\n",
    "nothing may be read or written": (
        "os.makedirs('a/b/c')\nopen('a/b/c/file', 'w').close()\n"
        "for path in ('a/b/c/file', 'a/b/c', 'a/b', 'a', '.'):\n    os.chmod(path, 0)\n"
    ),
    "names of any bytes": (
        "for name in (b'\\xff\\n', b'-rf', b'a' * 255):\n    os.mkdir(name)\n    open(name + b'/' + name, "
        "'w').close()\n"
    ),
    "links, pipes and sockets": (
        "import socket\nos.symlink('KEPT', 'file')\nos.symlink('KEPT/..', 'folder')\nos.symlink('.', 'itself')\n"
        "os.link('KEPT', 'hard')\nos.mkfifo('pipe')\nsocket.socket(socket.AF_UNIX).bind('socket')\n"
    ),
}


USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]  # whom modes bind


@pytest.mark.parametrize(
    ("name", "user"), [*((name, []) for name in TREES), *((name, USER) for name in TREES if "100,000" not in name)]
)
def test_any_tree_is_removed(name: str, user: list[str]):
    top, kept = Path(scratch.create()), Path(scratch.create(), "kept")
    kept.write_text("kept")
    kept.chmod(0o640)
    subprocess.run([sys.executable, "-c", "import os\n" + TREES[name].replace("KEPT", str(kept))], cwd=top, check=True)
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from grader.isolation import scratch; "
        f"scratch.remove({str(top)!r})"
    )
    subprocess.run([*user, sys.executable, "-c", program], check=True)
    assert not top.exists()
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("kept", 0o640)
    scratch.remove(str(kept.parent))


@pytest.mark.fast
def test_a_link_is_not_followed(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    scratch.remove(str(tmp_path / "link"))
    assert (tmp_path / "folder").exists()


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A function that starts to grade a file without some layers."""

    def start(text: str, without: str = "", **env: str) -> subprocess.Popen[str]:
        (tmp_path / "mine.py").write_text(text)
        return subprocess.Popen(
            [sys.executable, "-c", boot(), "problem", "07", "mine.py", "--json"],
            cwd=tmp_path,
            env={**os.environ, "GRADE_WITHOUT": without, **env},
            stdout=subprocess.PIPE,
            text=True,
        )

    return start


def folders(judge: subprocess.Popen[str], top: Path = scratch.MEMORY) -> list[Path]:
    """The scratch folders of a judge."""
    return list(top.glob(f"grade-{judge.pid}-*"))


def test_a_deep_scratch_folder_is_removed(start: Start):
    nest = (
        "import os\nprint(os.getcwd())\nfor _ in range(3000):\n    os.mkdir('inner-folder')\n"
        "    os.chdir('inner-folder')\n"
    )
    judge = start(SOLUTION.read_text() + nest, without="namespaces")
    out, _ = judge.communicate()
    assert '"verdict": "PASS"' in out
    assert f"{scratch.MEMORY}/grade-{judge.pid}-" in out
    assert ", scratch in memory" in out
    assert folders(judge) == []


def test_nothing_is_left_outside_the_scratch_folder(start: Start):
    """Without namespaces, /dev/shm is the system's."""
    judge = start(f"open('{scratch.MEMORY}/left-behind', 'w')\n", without="namespaces")
    out, _ = judge.communicate()
    assert "PermissionError" in out
    assert not (scratch.MEMORY / "left-behind").exists()


def test_the_next_judge_removes_the_scratch_folders_of_a_killed_one(grade: Grade, start: Start, tmp_path: Path):
    nest = "import os\nfor _ in range(1500):\n    os.mkdir('inner')\n    os.chdir('inner')\nwhile True: pass\n"
    judge = start(nest, without="namespaces")
    deadline = time.monotonic() + 60
    while not list(scratch.MEMORY.glob(f"grade-{judge.pid}-*/*/inner")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    judge.kill()
    judge.communicate()
    assert folders(judge)
    shutil.copy(SOLUTION, tmp_path / "mine.py")
    assert grade("problem", "07", "mine.py").code == 0
    assert folders(judge) == []


@pytest.mark.fast
def test_without_memory_the_temporary_folder_is_used(tmp_path: Path):
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path; from grader.isolation import "
        f"scratch\nscratch.MEMORY = Path({str(tmp_path / 'missing')!r}); print(scratch.create())"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}/grade-")
    assert list(tmp_path.iterdir()) == [], "removed at the end"


@pytest.mark.fast
def test_a_folder_whose_judge_was_killed_before_it_locked_it():
    old, new = (Path(scratch.MEMORY, f"grade-{name}-{os.getpid()}") for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (0, 0))
    scratch.sweep()
    assert (old.exists(), new.exists()) == (False, True)
    new.rmdir()
