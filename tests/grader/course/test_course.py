"""`course.toml`: the order, the numbers and the names of problems, and the sentence about each mistake in it."""

import runpy
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


def test_numbers_are_places_in_the_file(select: Select):
    select(one_part('"exponential_average", "moving_average"'))
    assert catalog.names() == ["p01_exponential_average", "p02_moving_average"]
    first, second = catalog.problems()
    assert catalog.page_text(first).startswith("# 01 · Exponential average\n")
    assert "The moving average of problem 02 must" in catalog.page_text(first)
    assert "from p02_moving_average import" in catalog.page_text(second)
    assert "pages/p02_moving_average.md" in catalog.stub_text(second)
    assert (first.builds_on, second.builds_on) == ((2,), ())


OPTIONAL = """title = "Signals"
[[part]]
title = "Warm-up"
optional = true
problems = ["exponential_average"]
[[part]]
title = "All"
problems = ["moving_average"]
"""


def test_an_optional_part_comes_last_once_another_problem_is_attempted(select: Select, tmp_path: Path, grade: Grade):
    folder = select(OPTIONAL)
    first, second = catalog.problems()
    space = Workspace(tmp_path / "attempts")
    suggestion = grade("--course", folder, "next").out
    assert "Next: problem 01, Exponential average, in “Warm-up (optional)”." in suggestion
    assert "you can start with problem 02" in suggestion
    assert [space.next_problem(), space.next_problem(first), space.next_problem(second)] == [first, second, first]
    space.add(second)
    space.remember(second, verdict="NOT ATTEMPTED", score=0)
    assert space.next_problem() == first
    space.remember(second, verdict="FAIL", score=0)
    assert space.next_problem() == second, "they have left the optional part out"
    shutil.copyfile(folder / "solutions" / "p01_moving_average.py", space.file(second))
    space.remember(second, verdict="PASS", score=second.points)
    assert space.next_problem() == first, "the only one that is left"
    assert course.as_toml(course.read(folder), catalog.names())["part"][0]["optional"] is True


@pytest.mark.parametrize("value", ['"yes"', "1"])
def test_optional_is_true_or_false(select: Select, value: str):
    folder = select(OPTIONAL.replace("true", value))
    with pytest.raises(CourseError, match="`optional` of part 1 must be true or false"):
        course.read(folder)


def test_a_number_can_be_fixed(select: Select):
    select(one_part('"p05_moving_average", "exponential_average"'))
    assert catalog.names() == ["p05_moving_average", "p06_exponential_average"]


def test_a_problem_that_is_not_listed_comes_last(select: Select):
    select(one_part('"exponential_average"'))
    assert catalog.names() == ["p01_exponential_average", "p02_moving_average"]
    assert [catalog.part_of(problem) for problem in catalog.problems()] == ["All", "Beyond the course"]


def test_problems_of_the_shipped_course_are_included(select: Select):
    select(one_part('{ include = "gpt_block" }, "moving_average", { include = 4 }, { include = "p32_tinystories" }'))
    assert catalog.names()[:4] == ["p01_gpt_block", "p02_moving_average", "p03_layer_norm", "p32_tinystories"]
    block, average, norm = catalog.problems()[:3]
    assert (block.builds_on, average.builds_on) == ((3,), ()), "of problems 03 and 04, one is here, as 03"
    assert catalog.page_text(norm).startswith("# 03 · Layer normalization")
    assert "from p03_layer_norm import" in catalog.page_text(norm)
    sources = catalog.reference_sources(block)
    assert list(sources) == ["p01_gpt_block", "p03_causal_mha"], "an import that is not in the course is still found"
    assert catalog.misconceptions(norm)


def test_prose_about_a_problem_elsewhere_says_where(select: Select):
    select(one_part('{ include = "causal_mha" }'))
    assert "attention of problem 02 of GPT Kata" in catalog.page_text(catalog.find("causal_mha"))


def test_a_part_may_begin_at_any_number(select: Select):
    select(
        one_part('"p33_moving_average"')
        + '[[part]]\ntitle = "II"\nproblems = ["p01_exponential_average", { include = 4 }]'
    )
    assert catalog.names()[:3] == ["p33_moving_average", "p01_exponential_average", "p02_layer_norm"]


def test_points(select: Select):
    select(one_part('{ problem = "moving_average", points = 15 }, { include = 4, points = 10 }'))
    average, norm = catalog.problems()[:2]
    assert (average.points, norm.points) == (15, 10)
    assert [check.points for check in average.checks] == [6, 3, 3, 3]


def test_points_that_the_checks_cannot_have(select: Select):
    select(one_part('{ problem = "moving_average", points = 7 }'))
    with pytest.raises(
        CourseError, match=r"signals/course\.toml: the points of moving_average must be a multiple of 5"
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
        ('title = "S"\npart = "I"', r"write each part as a table `\[\[part\]\]`"),
        ('title = "S"\n[[part]]\nproblems = []', "part 1 needs a `title`"),
        ('title = "S"\n[[part]]\ntitle = "I"', "part 1 must list its `problems`"),
        ('title = "S"\n[[part]]\ntitel = "I"', "part 1 cannot have 'titel'; did you mean 'title'?"),
        (one_part('"moving_averge"'), r"no folder problems/pNN_moving_averge; did you mean 'moving_average'\?"),
        (one_part('"moving_average", "moving_average"'), "moving_average is listed twice"),
        (one_part('"moving_average", { include = "nothing" }'), "includes 'nothing', which GPT Kata does not have"),
        (one_part("{ include = 99 }"), "includes '99', which GPT Kata does not have"),
        (one_part("3"), "part 1 has 3, which is no problem"),
        (one_part('{ problem = "moving_average", include = 4 }'), "which is no problem"),
        (one_part('{ problem = "moving_average", points = -1 }'), "points that are not a whole number above 0"),
        (one_part('{ problem = "moving_average", point = 1 }'), "cannot have 'point'; did you mean 'points'?"),
        (
            one_part('"p09_moving_average", "p03_exponential_average"'),
            "p03_exponential_average must have a number from 10",
        ),
        (
            one_part('"p09_moving_average"') + '[[part]]\ntitle = "II"\nproblems = ["p09_exponential_average"]',
            "p09_exponential_average would have the number 09, which another problem has",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_file(select: Select, toml: str, complaint: str):
    folder = select(toml)
    with pytest.raises(CourseError, match=complaint) as caught:
        catalog.problems()
    assert str(caught.value).startswith(f"{folder / 'course.toml'}")
    assert caught.value.exit_code == 2


def test_the_drawings_of_the_example_are_made_from_their_sources():
    render = runpy.run_path(str(ROOT / "docs" / "draw.py"))["render"]
    sources = sorted((EXAMPLE / "docs" / "drawings").glob("*.txt"))
    assert [source.stem for source in sources] == [folder.name for folder in course.problem_folders(EXAMPLE)]
    for source in sources:
        drawing = EXAMPLE / "problems" / source.stem / "drawing.svg"
        assert render(source.stem, source.read_text(encoding="utf-8")) == drawing.read_text(encoding="utf-8")


def test_two_folders_with_one_slug(select: Select):
    folder = select(one_part('"moving_average"'))
    shutil.copytree(folder / "problems" / "p01_moving_average", folder / "problems" / "p07_moving_average")
    with pytest.raises(CourseError, match=r"p07_moving_average and p01_moving_average have the same slug"):
        catalog.problems()
