"""The learners' bundle: everything that they need, and nothing from the solutions."""

import json
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.course import catalog, page
from grader.course.cases import draw_all
from grader.errors import CourseError
from grader.handout import pack
from grader.isolation.sandbox import ForkServer
from grader.judge import bundled_outputs, judge
from grader.judge.judge import Shared
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from grader.wire.channel import LENGTHS
from tests.conftest import NO_SHIFT, ROOT, Grade, made_once, misconception_name

SOLUTIONS = ROOT / "solutions"
WRONG_MODULE = ("self.gate_proj(x))", "1.5 * self.gate_proj(x))")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(top: Path) -> None:
        top.mkdir()
        lines = list(pack.pack(top / "bundle", [catalog.find("07"), catalog.find("38")]))
        assert lines[-1] == f"{top / 'bundle'}: 2 problems, without their solutions"
        assert list(top.iterdir()) == [top / "bundle"]

    return made_once(tmp_path_factory, "pack", make) / "bundle"


def contents(bundle: Path) -> Iterator[tuple[Path, bytes]]:
    """Each file of a bundle, and each entry of its archives, with its bytes."""
    for path in bundle.rglob("*"):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                yield from ((path / name, archive.read(name)) for name in archive.namelist())
        elif path.is_file():
            yield path, path.read_bytes()


def test_it_has_nothing_from_the_solutions(bundle: Path):
    """Neither the references nor the edits of misconceptions: of these only names and sentences are public."""
    texts = dict(contents(bundle))
    assert not (bundle / "solutions").exists()
    assert not (bundle / "harness").exists(), "the trainer contains a GPT"
    course_files = [
        path for folder in ("problems", "grader", "commandline", "studio") for path in (ROOT / folder).rglob("*.*")
    ]
    public_files = {path.read_bytes() for path in course_files if path.suffix in (".py", ".md")}
    public = b"".join(public_files)
    secret: set[bytes] = set()
    for problem in catalog.problems():
        sources = [catalog.solution_text(problem)]
        for misconception in catalog.misconceptions(problem):
            sources += [misconception.find, *misconception.replace]
        lines = {line.strip() for source in sources for line in source.splitlines()}
        # As text, and as it would be in JSON.
        secret |= {form.encode() for line in lines if len(line) > 30 for form in (line, json.dumps(line)[1:-1])}
    secret = {line for line in secret if line not in public}
    assert len(secret) > 1000
    for path, text in texts.items():
        if text in public_files:
            continue  # all of it is public
        leaked = [line for line in secret if line in text]
        assert not leaked, (path, leaked[:1])


@pytest.mark.thorough
def test_where_a_misconception_fails_in_the_reference_is_not_recorded(tmp_path: Path, fork_server: ForkServer):
    """The lines of a traceback are the reference's. Some misconceptions of problem 01 raise an exception."""
    bundled_outputs.record(catalog.find("01"), tmp_path, fork_server)
    raised = [data for _, data in contents(tmp_path) if b'"kind": "raised"' in data]
    assert raised
    for data in raised:
        fields = json.loads(data[LENGTHS.size : LENGTHS.size + int.from_bytes(data[:4], "big")])["fields"]
        assert (fields["frames"], fields["caret"]) == ([], "")


def test_a_correct_file_passes_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text((SOLUTIONS / "p07_next_token_loss.py").read_text())
    run = grade("problem", "07", "mine.py", root=bundle)
    assert run.code == 0, run.out + run.err


def test_its_pages_make_a_book(bundle: Path, grade: Grade, tmp_path: Path):
    run = grade("book", "--no-browser", "--out", str(tmp_path / "book"), root=bundle)
    assert run.code == 0, run.out + run.err
    assert {path.name for path in (tmp_path / "book").glob("p*.html")} == {
        "p07_next_token_loss.html",
        "p38_rms_norm_swiglu.html",
    }
    home = (tmp_path / "book" / "index.html").read_text()
    assert 'href="p07_next_token_loss.html"' in home
    assert "Tutorials" not in home  # the documents that it would list are not in the bundle
    words = (tmp_path / "book" / "glossary.html").read_text()
    assert '<strong id="perplexity">perplexity</strong> (<a href="p07_next_token_loss.html">07</a>):' in words
    assert '<strong id="all-reduce">all-reduce</strong>: ' in words  # its problem is not in the bundle


def test_the_first_wrong_number_is_reported_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    good = (SOLUTIONS / "p07_next_token_loss.py").read_text()
    (tmp_path / "mine.py").write_text(good.replace("token_ids[1:]", "token_ids[:-1]"))
    run = grade("problem", "07", "mine.py", root=bundle)
    assert run.code == 1
    for text in ("First difference: shifted by one", "expected  ", "Smallest failing case found:", "logits: float32"):
        assert text in run.out
    assert f"Likely cause: {misconception_name('07', NO_SHIFT)}" in run.out


@pytest.mark.thorough
def test_misconceptions_are_named_in_it(bundle: Path, fork_server: ForkServer):
    """As with the course itself: every third one, to save time."""
    problem = catalog.find("07")
    packed = replace(problem, folder=bundle / "problems" / problem.name)
    answers = bundled_outputs.Recorded(packed)
    try:
        for misconception in catalog.misconceptions(problem)[::3]:
            text = next(iter(misconception.variants(catalog.solution_text(problem)).values()))
            submission = Submission("mine.py", {problem.name: text})
            report = judge.grade(problem, submission, fork_server, GradeOptions(shrink=False), Shared(answers))
            assert report.misconception is not None, misconception.name
            assert report.misconception.name == misconception.name
            assert report.misconception.find == ""
    finally:
        answers.close()


def test_equal_recordings_are_equal_files(bundle: Path, tmp_path: Path, fork_server: ForkServer):
    problem = catalog.find("07")
    bundled_outputs.record(problem, tmp_path, fork_server)
    assert (tmp_path / "outputs.zip").read_bytes() == (bundle / "problems" / problem.name / "outputs.zip").read_bytes()


@pytest.mark.parametrize("damage", ["header", "entry"])
def test_damaged_recordings_are_an_error_of_the_bundle(bundle: Path, tmp_path: Path, damage: str):
    problem = catalog.find("07")
    data = bytearray((bundle / "problems" / problem.name / "outputs.zip").read_bytes())
    if damage == "header":
        data = data[: len(data) // 2]
    else:  # entries in the middle; the list of misconceptions comes first
        middle = slice(len(data) // 3, len(data) // 2)
        data[middle] = bytes(len(data[middle]))
    (tmp_path / "outputs.zip").write_bytes(data)
    packed = replace(problem, folder=tmp_path)

    def read_all() -> None:
        answers = bundled_outputs.Recorded(packed)
        for check in problem.checks:
            for case in draw_all(packed, 0)[check.cases]:
                for variant in ("", *answers.misconceptions):
                    answers.ask(check, case, variant).result()

    with pytest.raises(CourseError, match=r"(cannot be read|is corrupt): .* Unpack your teacher's bundle again"):
        read_all()


def test_the_faulty_submodule_is_found_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    good = (SOLUTIONS / "p38_rms_norm_swiglu.py").read_text()
    assert WRONG_MODULE[0] in good
    (tmp_path / "mine.py").write_text(good.replace(*WRONG_MODULE))
    run = grade("problem", "38", "mine.py", root=bundle)
    assert run.code == 1
    assert "First difference: SwiGLU" in run.out
    assert "Inside it, `gate_proj` and `up_proj` are right." in run.out


def test_a_workspace_is_created_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    run = grade("start", root=bundle)
    assert run.code == 0
    assert (tmp_path / "attempts" / "AGENTS.md").read_text() == (ROOT / "problems" / "agents.md").read_text()
    assert "Problem 07 has no play" in grade("play", "07", root=bundle).err
    assert (tmp_path / "attempts" / "p38_rms_norm_swiglu.py").exists()
    assert grade("problem", "07", root=bundle).code == 1
    assert "2 problems" in grade("doctor", root=bundle).out


@pytest.mark.thorough
def test_plays_and_a_teachers_own_instructions_for_assistants(grade: Grade, tmp_path: Path):
    (tmp_path / "tutors.md").write_text("Ask Ms. Noether.\n")
    packed = grade("pack", "bundle", "--problems", "07", "--plays", "--agents", "tutors.md")
    assert packed.code == 0, packed.err
    bundle = tmp_path / "bundle"
    grade("start", root=bundle)
    assert (tmp_path / "attempts" / "AGENTS.md").read_text() == "Ask Ms. Noether.\n"
    (tmp_path / "mine.py").write_text((SOLUTIONS / "p07_next_token_loss.py").read_text())
    played = grade("play", "07", "mine.py", "--html", "play.html", root=bundle)
    assert played.code == 0, played.err
    for shown in (played.out, (tmp_path / "play.html").read_text(encoding="utf-8")):
        assert "What your loss charges the model" in shown
        assert "<|endoftext|>" in shown.replace("&lt;", "<").replace("&gt;", ">")


def test_a_bundle_without_instructions_for_assistants(grade: Grade, tmp_path: Path):
    assert grade("pack", "bundle", "--agents", "missing.md").err.endswith(
        "missing.md cannot be read: No such file or directory.\n"
    )
    assert not (tmp_path / "bundle").exists()
    for line in pack.pack(tmp_path / "bundle", [catalog.find("07")], agents=""):
        assert line
    grade("start", root=tmp_path / "bundle")
    assert not (tmp_path / "attempts" / "AGENTS.md").exists()


@pytest.mark.thorough
def test_an_open_task_without_a_program_is_in_it(grade: Grade, tmp_path: Path):
    """With the module that trains its runs, which it shares with another task."""
    packed = grade("pack", "bundle", "--problems", "26")
    assert packed.code == 0, packed.err
    shown = grade("show", "sick_restart", root=tmp_path / "bundle")
    assert shown.out.startswith("# The run that went wrong"), shown.err
    module = catalog.defined_task(ROOT / "tasks" / "sick_restart").module
    assert (tmp_path / "bundle" / f"{module.replace('.', '/')}.py").is_file()


def test_other_seeds_and_solutions_are_not_in_it(bundle: Path, grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text((SOLUTIONS / "p07_next_token_loss.py").read_text())
    run = grade("problem", "07", "mine.py", "--seed", 3, root=bundle)
    assert run.code == 2
    assert "no reference outputs for these cases of problem 07" in run.err
    run = grade("solution", "07", "--give-up", root=bundle)
    assert run.code == 2
    assert "was handed out to a class without the solution of problem 07" in run.err


def test_nothing_in_it_promises_a_solution(bundle: Path, grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text((SOLUTIONS / "p07_next_token_loss.py").read_text())
    grade("start", root=bundle)  # hints are counted in a workspace
    out = grade("problem", "07", "mine.py", root=bundle).out
    for _ in page.hints(catalog.find("07")):
        out += grade("hint", "07", root=bundle).out
    assert "0 hints left." in out
    assert "grade solution" not in out


def test_its_project_file_names_its_packages(bundle: Path):
    project = tomllib.loads((bundle / "pyproject.toml").read_text())
    assert project["tool"]["uv"]["build-backend"]["module-name"] == ["commandline", "grader", "problems", "studio"]
    assert list(project["project"]["scripts"]) == ["grade"]
    assert not [name for name in project["project"]["dependencies"] if "==" in name], "other courses pin, too"
    for package in project["tool"]["uv"]["build-backend"]["module-name"]:
        assert (bundle / package / "__init__.py").exists()


def test_nothing_is_overwritten(grade: Grade, tmp_path: Path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "mine").touch()
    run = grade("pack", "bundle", "--problems", "07")
    assert run.code == 2
    assert "bundle already exists and is not empty; choose a new folder." in run.err
    assert list(tmp_path.rglob("*")) == [tmp_path / "bundle", tmp_path / "bundle" / "mine"]


@pytest.mark.parametrize("error", [CourseError("unsound"), KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("exists", [False, True])
def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exists: bool):
    def fail(*args: object) -> int:
        raise error

    monkeypatch.setattr(bundled_outputs, "record", fail)
    folder = tmp_path / "bundle"
    if exists:
        folder.mkdir()
    with pytest.raises(UsageError if isinstance(error, OSError) else type(error)):
        list(pack.pack(folder, [catalog.find("07")]))
    assert list(tmp_path.rglob("*")) == [folder] * exists


def test_an_abandoned_bundle_leaves_nothing(tmp_path: Path):
    lines: Iterator[str] = pack.pack(tmp_path / "bundle", [catalog.find("07")])
    next(lines)
    lines.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled(tmp_path: Path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    before = folder.stat().st_ino
    list(pack.pack(folder, [catalog.find("07")]))
    assert (folder / "pyproject.toml").is_file()
    assert folder.stat().st_ino == before, "the folder may be the current one of a shell"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.thorough
def test_packed_from_an_installed_course(site: Path, grade: Grade, tmp_path: Path):
    """Where the course is installed without its repository, there is neither pyproject.toml nor LICENSE beside the
    packages."""
    run = grade("pack", "bundle", "--problems", "07", root=site)
    assert run.code == 0, run.err
    project = tomllib.loads((tmp_path / "bundle" / "pyproject.toml").read_text())
    assert list(project["project"]["scripts"]) == ["grade"]
    assert (tmp_path / "bundle" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    (tmp_path / "mine.py").write_text((SOLUTIONS / "p07_next_token_loss.py").read_text())
    assert grade("problem", "07", "mine.py", root=tmp_path / "bundle").code == 0
