"""The cache: everything that decides a verdict is in its keys."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from grader.judge import cache
from grader.wire.channel import Frame
from grader.wire.compare import Leaf
from tests.conftest import ROOT

PACKAGES = ("commandline", "grader", "harness")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course's own code, problems and solutions."""
    copy = tmp_path / "course"
    for package in (*PACKAGES, "problems", "solutions", "tasks"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "course.toml", copy)
    return copy


def edit(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n# edited\n")


def own_code(root: Path) -> str:
    return cache.digest(cache.own_code(root))


def a_module(folder: Path) -> Path:
    """A module in a folder, as deep as there is one."""
    return max(folder.rglob("*.py"), key=lambda path: (len(path.parts), path))


def test_every_file_of_the_course_is_part_of_its_code(course: Path):
    """Modules in rooms, and data beside them."""
    before = own_code(course)
    assert before == own_code(ROOT), "the same wherever it is installed"
    paths = [path for package in PACKAGES for path in sorted((course / package).rglob("*")) if path.is_file()]
    assert {path.parent.name for path in paths} >= {"commandline", "judge", "report", "worker", "harness"}
    assert any(path.suffix != ".py" for path in paths), "the harness has a tokenizer"
    one_of_a_kind = {(path.parent, path.suffix): path for path in paths}
    for path in one_of_a_kind.values():
        text = path.read_bytes()
        edit(path)
        assert own_code(course) != before, path
        path.write_bytes(text)
    assert own_code(course) == before


def test_a_new_a_renamed_and_a_removed_module_are_seen(course: Path):
    seen = [own_code(course)]
    module = a_module(course / "harness")
    module.rename(module.with_name("renamed.py"))
    seen.append(own_code(course))
    module.with_name("renamed.py").unlink()
    seen.append(own_code(course))
    (course / "grader" / "new" / "room").mkdir(parents=True)
    (course / "grader" / "new" / "room" / "module.py").write_text("")
    seen.append(own_code(course))
    assert len(set(seen)) == 4


def test_compiled_modules_do_not_count(course: Path):
    before = own_code(course)
    folder = course / "grader" / "judge" / "__pycache__"
    folder.mkdir()
    (folder / "judge.cpython-311.pyc").write_bytes(b"x")
    assert own_code(course) == before


@pytest.mark.parametrize("package", ["commandline", "harness", "grader/report"])
def test_an_edit_changes_the_environment(package: str, course: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "ROOT", course)
    before = cache.environment.__wrapped__()
    assert cache.environment.__wrapped__() == before
    edit(a_module(course / package))
    assert cache.environment.__wrapped__() != before


@pytest.mark.parametrize("package", ["jax", "flax", "hypothesis", "grain", "tiktoken"])
def test_another_version_of_a_package_changes_the_environment(package: str, monkeypatch: pytest.MonkeyPatch):
    before, version = cache.environment.__wrapped__(), cache.version
    monkeypatch.setattr(cache, "version", lambda name: "0.0" if name == package else version(name))
    assert cache.environment.__wrapped__() != before


@pytest.mark.thorough
def test_an_edit_changes_the_key_of_a_batch(course: Path):
    """Of the capstone, whose verdict the harness decides. Each key is computed by a new process, as by a new batch."""
    program = (
        f"import sys; sys.path.insert(0, {str(course)!r})\n"
        "from grader.batch import tasks\nfrom grader.course import catalog\n"
        "problem = catalog.find('32')\nprint(tasks.key(problem, {problem.name: 'x = 1'}, 'x.py', 0, None))"
    )

    def key() -> str:
        completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return completed.stdout

    keys = [key(), key()]
    assert keys[0] == keys[1]
    for module in ("harness/run/loop.py", "commandline/text.py", "grader/wire/compare.py"):
        with (course / module).open("a") as file:
            file.write("\nMORE = 1\n")
        keys.append(key())
    assert len(set(keys)) == 4
    edit(course / "grader" / "batch" / "summary.py")  # no verdict depends on it
    assert key() == keys[-1]


def test_the_oldest_entries_are_removed_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "MOST_BYTES", 4096)
    cache._usable.cache_clear()
    frame = Frame("reading", {"notes": [], "numeric": False}, [Leaf("x", "float32", np.zeros(200, np.float32))])
    keys = [cache.digest([str(number)]) for number in range(8)]
    for age, key in enumerate(keys):
        cache.write(key, frame)
        os.utime(next(tmp_path.rglob(key)), (1000 - age, 1000 - age))
    cache._trim.cache_clear()  # as in the next process
    cache.write(cache.digest(["newer"]), frame)
    assert all(cache.read(key) for key in keys), "somebody has looked at all files a moment ago"
    os.utime(tmp_path / "references" / "trimmed", (1000, 1000))
    # What another process writes or removes meanwhile keeps none from it.
    (tmp_path / "references" / keys[0][:2] / "gone.lock").symlink_to(tmp_path / "nowhere")
    cache._trim.cache_clear()
    cache.write(cache.digest(["new"]), frame)
    assert cache.read(cache.digest(["new"])) is not None
    assert [cache.read(key) is not None for key in keys] == [True, *[False] * 7]
    cache._usable.cache_clear()
    cache._trim.cache_clear()


def test_of_two_processes_one_claims_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    key = cache.digest(["shared"])
    other = f"from grader.judge import cache; print(cache.claim({key!r}) is not None, flush=True); input()"

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", other], cwd=ROOT, stdin=-1, stdout=-1, text=True)

    def says(process: subprocess.Popen[str]) -> str:
        assert process.stdout
        return process.stdout.readline().strip()

    first = start()
    assert says(first) == "True"
    assert cache.claim(key) is None
    assert cache.claim(cache.digest(["another"])) is not None
    first.kill()
    first.communicate()
    release = cache.claim(key)  # nobody waits for a process that is gone
    assert release is not None
    second = start()
    assert says(second) == "False"
    second.communicate("\n")
    release()
    third = start()
    assert says(third) == "True"
    third.communicate("\n")
