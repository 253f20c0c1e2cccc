"""The learners' bundle: all that they need, and nothing of the solutions."""

import tomllib
from pathlib import Path

import pytest

from grader.course import catalog
from tests.conftest import ROOT, Grade

SOLUTIONS = ROOT / "solutions"
WRONG_MODULE = ("self.out_proj(", "1.5 * self.out_proj(")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from grader.handout import pack

    folder = tmp_path_factory.mktemp("pack") / "bundle"
    said = list(pack.pack(folder, [catalog.find("03"), catalog.find("07")]))
    assert said[-1].endswith("2 problems, without their solutions")
    return folder


def test_nothing_of_the_solutions_is_in_it(bundle: Path):
    texts = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    assert not [path for path in texts if "solutions" in path.parts]
    assert not (bundle / "harness").exists(), "the trainer holds a GPT"
    course_files = [path for folder in ("problems", "grader", "commandline") for path in (ROOT / folder).rglob("*.*")]
    public = b"".join(path.read_bytes() for path in course_files if path.suffix in (".py", ".md"))
    for solution in sorted(SOLUTIONS.glob("p*")):
        lines = {line.strip().encode() for line in solution.read_text().splitlines() if len(line.strip()) > 40}
        secret = [line for line in lines if line not in public]
        for path, text in texts.items():
            found = [line for line in secret if line in text]
            assert not found, (path, found[:1])


def test_a_right_file_passes_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text((SOLUTIONS / "p07_next_token_loss.py").read_text())
    run = grade("problem", "07", "mine.py", root=bundle)
    assert run.code == 0, run.out + run.err


def test_a_wrong_file_is_told_the_first_wrong_number(bundle: Path, grade: Grade, tmp_path: Path):
    good = (SOLUTIONS / "p07_next_token_loss.py").read_text()
    (tmp_path / "mine.py").write_text(good.replace("token_ids[1:]", "token_ids[:-1]"))
    run = grade("problem", "07", "mine.py", root=bundle)
    assert run.code == 1
    for text in ("First difference: shifted by one", "expected  ", "In this case", "logits: float32"):
        assert text in run.out
    assert "This is what comes out of" not in run.out, "that would need the misconceptions"


def test_the_guilty_part_is_found_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    good = (SOLUTIONS / "p03_causal_mha.py").read_text()
    assert WRONG_MODULE[0] in good
    (tmp_path / "mine.py").write_text(good.replace(*WRONG_MODULE))
    run = grade("problem", "03", "mine.py", root=bundle)
    assert run.code == 1
    assert "First difference: output" in run.out
    assert "gets the right input" in run.out or "wrong" in run.out


def test_a_workspace_begins_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    run = grade("start", root=bundle)
    assert run.code == 0
    assert (tmp_path / "attempts" / "p03_causal_mha.py").exists()
    assert grade("problem", "07", root=bundle).code == 1
    assert "2 problems" in grade("doctor", root=bundle).out


def test_other_seeds_and_solutions_are_not_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text((SOLUTIONS / "p07_next_token_loss.py").read_text())
    run = grade("problem", "07", "mine.py", "--seed", 3, root=bundle)
    assert run.code == 3
    assert "public seed only" in run.err
    run = grade("solution", "07", "--give-up", root=bundle)
    assert run.code == 3
    assert "is not here" in run.err


def test_its_project_file_says_what_it_holds(bundle: Path):
    project = tomllib.loads((bundle / "pyproject.toml").read_text())
    assert project["tool"]["uv"]["build-backend"]["module-name"] == ["commandline", "grader", "problems"]
    assert list(project["project"]["scripts"]) == ["grade"]
    assert any(name.startswith("hypothesis==") for name in project["project"]["dependencies"])
    for package in project["tool"]["uv"]["build-backend"]["module-name"]:
        assert (bundle / package / "__init__.py").exists()


def test_nothing_is_overwritten(grade: Grade, tmp_path: Path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()
    run = grade("pack", "there", "--problems", "07")
    assert run.code == 2
    assert "is there already" in run.err
