"""`course.toml`: the order, the numbers and the names of problems, and the sentence about each mistake in it."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.course import catalog, course, selection
from grader.course.workspace import Workspace
from grader.errors import CourseError
from tests.conftest import ROOT, Grade

pytestmark = pytest.mark.fast

EXAMPLE = ROOT / "docs" / "examples" / "smoothing"
Select = Callable[[str], Path]


@pytest.fixture
def select(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Select]:
    """A function that selects a copy of the example, with this text as its `course.toml`."""
    folder = tmp_path / "signals"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def selected(toml: str) -> Path:
        (folder / "course.toml").write_text(toml)
        monkeypatch.setenv(selection.VARIABLE, str(folder))
        catalog.forget()
        return folder

    yield selected
    catalog.forget()


def one_part(problems: str) -> str:
    return f'title = "Signals"\n[[part]]\ntitle = "All"\nproblems = [{problems}]\n'


def test_the_shipped_course_lists_every_problem():
    shipped = course.read(ROOT)
    assert sorted(listed.name for listed in shipped.problems) == [
        folder.name for folder in course.problem_folders(ROOT)
    ]
    assert course.BEYOND not in [listed.part for listed in shipped.problems]


def test_the_file_sets_the_order_and_the_folders_the_names(select: Select):
    select(one_part('"p02_exponential_average", "p01_moving_average"'))
    assert catalog.names() == ["p02_exponential_average", "p01_moving_average"]
    exponential, moving = catalog.problems()
    assert (exponential.number, exponential.builds_on, moving.builds_on) == (2, (1,), ())
    assert catalog.select("01-02") == [exponential, moving]


OPTIONAL = """title = "Signals"
[[part]]
title = "Warm-up"
optional = true
problems = ["p02_exponential_average"]
[[part]]
title = "All"
problems = ["p01_moving_average"]
"""


def test_an_optional_part_comes_last_once_another_problem_is_attempted(select: Select, tmp_path: Path, grade: Grade):
    folder = select(OPTIONAL)
    first, second = catalog.problems()
    space = Workspace(tmp_path / "attempts")
    suggestion = grade("--course", folder, "next").out
    assert "Next: problem 02, Exponential average, in “Warm-up (optional)”." in suggestion
    assert "you can start with problem 01" in suggestion
    assert [space.next_problem(), space.next_problem(first), space.next_problem(second)] == [first, second, first]
    space.add(second)
    space.remember(second, verdict="NOT ATTEMPTED", score=0)
    assert space.next_problem() == first
    space.remember(second, verdict="FAIL", score=0)
    assert space.next_problem() == second, "they have left the optional part out"
    shutil.copyfile(folder / "solutions" / "p01_moving_average.py", space.file(second))
    space.remember(second, verdict="PASS", score=second.points)
    assert space.next_problem() == first, "the only one that is left"
    assert course.as_toml(course.read(folder), catalog.names(), ())["part"][0]["optional"] is True


def test_a_cold_problem_stays_cold_in_a_bundle(select: Select):
    folder = select(one_part('{ problem = "p01_moving_average", cold = true }, "p02_exponential_average"'))
    assert [catalog.is_cold(problem) for problem in catalog.problems()] == [True, False]
    rows = course.as_toml(course.read(folder), catalog.names(), ())["part"][0]["problems"]
    assert rows == [{"problem": "p01_moving_average", "cold": True}, "p02_exponential_average"]
    folder = select(one_part('{ problem = "p01_moving_average", cold = 1 }'))
    with pytest.raises(CourseError, match="`cold` of part 1 must be true or false"):
        course.read(folder)


@pytest.mark.parametrize("value", ['"yes"', "1"])
def test_optional_is_true_or_false(select: Select, value: str):
    folder = select(OPTIONAL.replace("true", value))
    with pytest.raises(CourseError, match="`optional` of part 1 must be true or false"):
        course.read(folder)


def test_a_problem_that_is_not_listed_comes_last(select: Select):
    select(one_part('"p02_exponential_average"'))
    assert catalog.names() == ["p02_exponential_average", "p01_moving_average"]
    assert [catalog.part_of(problem) for problem in catalog.problems()] == ["All", "Beyond the course"]


def test_included_problems_keep_their_names_and_their_files(select: Select):
    select(one_part('{ include = "p05_gpt_block" }, "p01_moving_average", { include = "p04_layer_norm" }'))
    assert catalog.names() == ["p05_gpt_block", "p01_moving_average", "p04_layer_norm", "p02_exponential_average"]
    block, _, norm, exponential = catalog.problems()
    assert (block.builds_on, exponential.builds_on) == ((4,), (1,)), "each beside its own folder, as far as it is here"
    assert catalog.page_text(norm) == (ROOT / "problems" / "p04_layer_norm" / "page.md").read_text()
    sources = catalog.reference_sources(block)
    assert list(sources) == ["p05_gpt_block", "p03_causal_mha"], "an import that is not in the course is still found"
    assert catalog.misconceptions(norm)


def test_points(select: Select):
    select(one_part('{ problem = "p01_moving_average", points = 15 }, { include = "p04_layer_norm", points = 10 }'))
    average, norm = catalog.problems()[:2]
    assert (average.points, norm.points) == (15, 10)
    assert [check.points for check in average.checks] == [6, 3, 3, 3]


def test_points_that_the_checks_cannot_have(select: Select):
    select(one_part('{ problem = "p01_moving_average", points = 7 }'))
    with pytest.raises(
        CourseError, match=r"signals/course\.toml: the points of p01_moving_average must be a multiple of 5"
    ):
        catalog.all_problems()


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("title = ", "is not valid TOML"),
        ("", "the course needs a `title`"),
        ("title = 3", "the course needs a `title`"),
        ('title = "S"\nprivat = true', "the course cannot have 'privat'; did you mean 'private'?"),
        ('title = "S"\nprivate = "yes"', "`private` must be true or false"),
        ('title = "S"\npart = "I"', "write each part as a table `[[part]]`"),
        ('title = "S"\n[[part]]\nproblems = []', "part 1 needs a `title`"),
        ('title = "S"\n[[part]]\ntitle = "I"', "part 1 must list its `problems`"),
        ('title = "S"\n[[part]]\ntitel = "I"', "part 1 cannot have 'titel'; did you mean 'title'?"),
        (
            one_part('"moving_average"'),
            "part 1 lists 'moving_average', which is not the name of a problem of this course; "
            'write "p01_moving_average".',
        ),
        (one_part('"p01_moving_averge"'), 'is not the name of a problem of this course; write "p01_moving_average".'),
        (one_part('{ problem = ["p01_moving_average"] }'), "which is not the name of a problem of this course"),
        (one_part('"p11_smoothing"'), "lists 'p11_smoothing', which is not the name of a problem of this course."),
        (one_part('{ include = "layer_norm" }'), 'is not the name of a problem of GPT Kata; write "p04_layer_norm".'),
        (
            one_part("{ include = 4 }"),
            'includes 4, which is not the name of a problem of GPT Kata; write "p04_layer_norm".',
        ),
        (one_part('{ include = "nothing" }'), "includes 'nothing', which is not the name of a problem of GPT Kata."),
        (one_part('"p01_moving_average", "p01_moving_average"'), "p01_moving_average is listed twice"),
        (one_part("3"), "part 1 has 3, which is no problem"),
        (one_part('{ problem = "p01_moving_average", include = 4 }'), "which is no problem"),
        (one_part('{ problem = "p01_moving_average", points = -1 }'), "points that are not a whole number above 0"),
        (one_part('{ problem = "p01_moving_average", point = 1 }'), "cannot have 'point'; did you mean 'points'?"),
        (
            one_part('"p01_moving_average", { include = "p01_token_embedding" }'),
            "p01_moving_average and p01_token_embedding have the same number; give another one to the folder and "
            "the files of p01_moving_average.",
        ),
        (
            one_part('{ include = "p02_causal_attention" }'),
            "p02_causal_attention and p02_exponential_average have the same number; give another one to the "
            "folder and the files of p02_exponential_average.",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_file(select: Select, toml: str, complaint: str):
    folder = select(toml)
    with pytest.raises(CourseError) as caught:
        catalog.problems()
    assert str(caught.value).startswith(f"{folder / 'course.toml'}")
    assert complaint in str(caught.value)
    assert caught.value.exit_code == 2


def test_two_folders_with_one_slug(select: Select):
    folder = select(one_part('"p01_moving_average"'))
    shutil.copytree(folder / "problems" / "p01_moving_average", folder / "problems" / "p07_moving_average")
    with pytest.raises(CourseError, match="p01_moving_average and p07_moving_average have the same slug"):
        catalog.problems()


def one_task(name: str, after: str = "p01_moving_average") -> str:
    return one_part('"p01_moving_average"') + f'[[task]]\nname = "{name}"\nafter = "{after}"\n'


def test_an_open_task_has_a_folder_and_comes_after_a_problem(select: Select):
    folder = select(one_part('"p01_moving_average"'))
    for name in ("doubling", "moving_average"):
        (folder / "tasks" / name).mkdir(parents=True)
    select(one_task("doubling"))
    read = course.read(folder)
    assert [(task.name, str(task.after)) for task in read.tasks] == [("doubling", "p01_moving_average")]
    assert course.as_toml(read, ["p02_exponential_average"], ["doubling"]).get("task") is None
    assert course.as_toml(read, ["p01_moving_average"], ["doubling"])["task"] == [
        {"name": "doubling", "after": "p01_moving_average"}
    ]
    assert folder / "tasks" in course.secret_folders([folder])


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (one_task("tripling"), "no folder of this name is in"),
        (one_task("../doubling"), "no folder of this name is in"),
        (one_task("moving_average"), "of another task or problem"),
        (one_task("doubling") + '[[task]]\nname = "doubling"\nafter = "p01_moving_average"\n', "of another task"),
        (one_task("doubling", "p01_moving_averag"), 'write "p01_moving_average"'),
    ],
)
def test_an_open_task_that_is_not_sound(select: Select, toml: str, said: str):
    folder = select(one_part('"p01_moving_average"'))
    for name in ("doubling", "moving_average"):
        (folder / "tasks" / name).mkdir(parents=True)
    with pytest.raises(CourseError, match=re.escape(said)):
        course.read(select(toml))
