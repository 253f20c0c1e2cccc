"""The wheel, built from the sdist and installed normally: what it offers works without the repository."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import venv
import zipfile
from collections.abc import Callable, Iterable
from http.cookiejar import CookieJar
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from packaging.requirements import Requirement

from grader.course import catalog
from grader.handout import pack
from tests.conftest import ROOT, made_once

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that uv builds from it."""
    return made_once(tmp_path_factory, "dist", lambda folder: _build(ROOT, folder))


def _build(source: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "uv", "build", "--offline", "--out-dir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and what it requires, linked from this one: nothing is
    downloaded."""
    return _installed(next(built.glob("*.whl")), tmp_path_factory.mktemp("bare") / "venv")


def _installed(wheel: Path, home: Path) -> Path:
    venv.create(home, symlinks=True)
    _link_packages(_required("gpt-kata"), next(home.glob("lib/*/site-packages")))
    uv = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--quiet", "--python", str(home)]
    subprocess.run([*uv, str(wheel)], check=True)
    return home / "bin"


def _required(package: str) -> set[str]:
    """The packages that a package requires without its extras, and those that they require."""
    found: set[str] = set()
    wanted = [Requirement(package)]
    while wanted:
        wish = wanted.pop()
        for needed in map(Requirement, metadata.requires(wish.name) or []):
            applies = not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *wish.extras))
            if applies and (needed.name not in found or needed.extras):
                found.add(needed.name)
                wanted.append(needed)
    return found


def _link_packages(names: Iterable[str], folder: Path) -> None:
    for package in map(metadata.distribution, names):
        for file in package.files or []:
            if ".." not in file.parts and not (folder / file).exists():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                _link(package.locate_file(file), folder / file)


def _link(source: Any, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copyfile(source, target)


@pytest.fixture
def command(installed: Path, tmp_path: Path) -> Command:
    """Runs a program of the environment in an empty folder, with no way to the repository."""

    def run(program: str, *args: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [installed / program, *map(str, args)], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


def test_neither_holds_tests_or_what_only_the_other_needs(built: Path):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel, tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        packed = wheel.namelist()
        source = [name.partition("/")[2] for name in sdist.getnames()]
    names = [name for name in [*packed, *source] if not name.startswith("grader/course/template/")]
    assert not [name for name in names if re.search(r"(^|/)(tests|node_modules|__pycache__|\.venv)/", name)]
    for name in catalog.names():
        for part in (
            f"problems/{name}/page.md",
            f"problems/{name}/stub.py",
            f"solutions/{name}.py",
            f"solutions/{name}.toml",
            *(path.relative_to(ROOT).as_posix() for path in catalog.frames(catalog.load(name))),
        ):
            assert part in packed
            assert part in source
    assert any(name.endswith(".data/purelib/course.toml") for name in packed)
    assert "problems/glossary.md" in packed


def test_a_learner(command: Command, tmp_path: Path):
    assert command("grade", "start").returncode == 0
    stub = command("grade", "problem", "07")
    assert (stub.returncode, "NOT ATTEMPTED" in stub.stdout) == (1, True), stub.stderr
    shutil.copy(ROOT / "docs" / "examples" / "p07_looks_back.py", tmp_path)
    wrong = command("grade", "problem", "07", "p07_looks_back.py", "--json")
    assert json.loads(wrong.stdout)["misconception"]["name"] == "targets shifted the wrong way"
    solution = command("grade", "solution", "07", "--give-up")
    (tmp_path / "attempts" / "p07_next_token_loss.py").write_text(f"import tiktoken\n{solution.stdout}")
    right = command("grade", "problem", "07")
    assert (right.returncode, "PASS" in right.stdout) == (0, True), right.stdout + right.stderr


def test_a_bundle_that_is_installed_normally(tmp_path: Path):
    """As an image for a hub installs it."""
    list(pack.pack(tmp_path / "bundle", [catalog.find("07")]))
    _build(tmp_path / "bundle", tmp_path / "dist")
    programs = _installed(next((tmp_path / "dist").glob("*.whl")), tmp_path / "venv")
    assert not list(programs.parent.glob("lib/*/site-packages/solutions/*"))
    shutil.copy(ROOT / "docs" / "examples" / "p07_looks_back.py", tmp_path)
    for args in (["start"], ["problem", "07", "p07_looks_back.py", "--json"]):
        done = subprocess.run([programs / "grade", *args], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["misconception"]["name"] == "targets shifted the wrong way", done.stderr


@pytest.mark.thorough
def test_a_teacher(command: Command, tmp_path: Path):
    (tmp_path / "class" / "ada").mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / "p07_next_token_loss.py", tmp_path / "class" / "ada")
    graded = command("grade", "batch", "class", "--out", "results")
    assert graded.stdout.splitlines()[-1] == "1 PASS.", graded.stderr
    packed = command("grade", "pack", "bundle", "--problems", "01")
    assert packed.returncode == 0, packed.stderr
    assert (tmp_path / "bundle" / "problems" / "p01_token_embedding" / "page.md").is_file()
    assert not (tmp_path / "bundle" / "solutions" / "p01_token_embedding.py").exists()


@pytest.mark.thorough
def test_training(command: Command, tmp_path: Path):
    small = (
        "--data",
        "pocket:200",
        "--steps",
        "2",
        "--set",
        "d_model=16",
        "--set",
        "d_ff=16",
        "--set",
        "num_layers=1",
        "--set",
        "context=16",
    )
    trained = command("harness", "train", *small)
    assert trained.returncode == 0, trained.stderr
    assert command("harness", "sample", "pocket", "--max-tokens", "3").returncode == 0
    exported = command("harness", "export", "pocket", "--to", "model")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_the_studio(installed: Path, tmp_path: Path):
    subprocess.run([installed / "grade", "start"], cwd=tmp_path, capture_output=True, check=True)
    command = [installed / "grade", "web", "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout
            address = next(found[0] for line in serving.stdout if (found := re.search(r"http://\S+", line)))
            jar = CookieJar()
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
            browser.open(address).close()
            (cookie,) = jar
            with contextlib.closing(browser.open(urllib.parse.urljoin(address, f"{cookie.path}/"))) as page:
                assert "Token and position embedding" in page.read().decode()
        finally:
            serving.terminate()


@pytest.mark.thorough
def test_an_exported_notebook(command: Command, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In a kernel of the environment, which finds what a kernel needs in another folder."""
    assert command("grade", "export", "notebooks", "notebooks", "--problems", "01").returncode == 0
    kernel = tmp_path / "kernel"
    _link_packages({"ipykernel", *_required("ipykernel")} - _required("gpt-kata"), kernel / "packages")
    argv = [str(installed / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "bare", "language": "python", "env": {"PYTHONPATH": str(kernel / "packages")}}
    (kernel / "kernels" / "python3").mkdir(parents=True)
    (kernel / "kernels" / "python3" / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(kernel))
    notebook = nbformat.read(tmp_path / "notebooks" / "p01_token_embedding.ipynb", as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    cells["install"].source = cells["install"].source.replace("%pip", "# %pip")  # there is no network
    cells["code"].source = (ROOT / "solutions" / "p01_token_embedding.py").read_text()
    notebook.cells.append(nbformat.v4.new_code_cell("import sys, grader; print(sys.prefix, grader.__file__)"))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert notebook.cells[-1].outputs[0].text.count(str(installed.parent)) == 2
    (shown,) = cells["grade"].outputs
    assert ('pass">PASS' in shown.data["text/html"], "6 of 6 points" in shown.data["text/html"]) == (True, True)
    assert "passed" in command("grade", "list", "embedding").stdout
