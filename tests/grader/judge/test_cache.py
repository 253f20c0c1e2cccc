"""The cache: everything that decides a verdict is in its keys, and no folder of programs is removed while it is used."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from commandline import files
from grader.course import catalog
from grader.isolation.sandbox import WorkerProcess
from grader.judge import cache, submission
from tests.conftest import ROOT

PACKAGES = ("commandline", "grader", "harness")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course's own code, problems and solutions."""
    copy = tmp_path / "course"
    for package in (*PACKAGES, "problems", "solutions"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
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
    for path in paths:
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
    for package in ("harness", "commandline", "grader/report"):
        edit(a_module(course / package))
        keys.append(key())
    assert len(set(keys)) == 4


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], Path]:
    """A function that asks an empty cache for the folder of some sources. Each folder is newer than those before it."""
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    cache._usable.cache_clear()
    times = iter(range(1_000_000, 2_000_000))

    def programs(sources: object) -> Path:
        path = cache.programs([str(sources)])
        assert path is not None
        now = next(times)
        os.utime(path, (now, now))
        return path

    yield programs
    cache._usable.cache_clear()


def test_the_least_recently_used_folders_are_removed(programs):
    first, second = programs("first"), programs("second")
    for number in range(cache._KEPT_PROGRAMS - 2):
        programs(number)
    assert programs("first") == first
    programs("one more")
    assert first.is_dir()
    assert not second.exists()


def test_a_folder_in_use_is_kept(programs):
    """Forty newer folders used to evict it while its worker was running."""
    used, unused = programs("used"), programs("unused")
    (used / "program").write_text("compiled")
    os.utime(used, (0, 0))
    release = files.mark_in_use(used)
    for number in range(cache._KEPT_PROGRAMS + 5):
        programs(number)
    assert (used / "program").read_text() == "compiled"
    assert not unused.exists()
    release()
    programs("one more")
    assert not used.exists()
    assert len(os.listdir(used.parent)) <= cache._KEPT_PROGRAMS, "no mark is left"


def test_a_folder_of_a_killed_process_is_removed(programs):
    used = programs("used")
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\nfrom commandline import files\n"
        "files.mark_in_use(Path(sys.argv[1]))\nprint('marked', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(used)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "marked\n"
        for number in range(cache._KEPT_PROGRAMS + 5):
            programs(number)
        assert used.is_dir()
        process.kill()
    programs("one more")
    assert not used.exists()


def test_a_worker_marks_the_folder_of_its_programs(programs):
    problem = catalog.find("07")
    path = programs("worker")
    job = submission.job(problem, submission.reference(problem))
    assert job.programs is not None
    assert job.programs.parent == path.parent
    assert not files.in_use(job.programs)
    worker = WorkerProcess(job)
    assert files.in_use(job.programs)
    worker.close()
    assert not files.in_use(job.programs)
