"""`grade verify` reports every defect: each part of a sound problem is broken in turn."""

import json
import re
import shutil
from pathlib import Path

import pytest

from grader import soundness
from grader.course import catalog
from grader.course.cases import draw_all
from grader.course.catalog import Misconception
from grader.margins import Margin
from tests.conftest import ROOT, Grade

NAME = "p04_layer_norm"
PAGE, STUB, DEFINITION = (f"problems/{NAME}/{file}" for file in ("page.md", "stub.py", "problem.py"))
SOLUTION, MISCONCEPTIONS = f"solutions/{NAME}.py", f"solutions/{NAME}.toml"
FIRST, SECOND = catalog.misconceptions(catalog.load(NAME))[:2]
LAST_CHECK = catalog.load(NAME).checks[-1].name
# The sections of the page that claims, pitfalls and promises come from, reduced to what the two misconceptions cover.
SECTIONS = {
    "Why this matters": "Why.",
    "The ideas": "One idea.\n\n```predict\nHow many rows?\n\n= 3\n\nSo many.\n\n>>> 1 + 2\n3\n```",
    "A worked sketch": "A row, by hand.",
    "Pitfalls": "- One.\n- Two.",
    "The problem": "```text\nlayer_norm(x, scale, bias, epsilon) -> out\n```\n\nIt must work.",
    "Inputs": "Arrays.",
    "Output": "An array.",
}
WHY = 'why = "So."\n'
PROMISE = f'''[[promise]]
page = "It must work."
check = "output"
broken_by = "{FIRST.name}"

'''


def as_toml(misconception: Misconception, pitfall: str) -> str:
    forms = ", ".join(f"'''\n{form}'''" for form in misconception.replace)
    return (
        f"[[misconception]]\nname = {json.dumps(misconception.name)}\nsays = {json.dumps(misconception.says)}\n"
        f"fix = {json.dumps(misconception.fix)}\npitfall = {json.dumps(pitfall)}\n"
        f"find = '''\n{misconception.find}'''\nreplace = [{forms}]\n\n"
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the course with one problem in it, and two of its misconceptions."""
    course = tmp_path / "course"
    for package in ("commandline", "grader"):
        shutil.copytree(ROOT / package, course / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "problems" / NAME, course / "problems" / NAME, ignore=shutil.ignore_patterns("__pycache__"))
    (course / "solutions").mkdir()
    (course / "course.toml").write_text('title = "One problem"\n')
    shutil.copy(ROOT / SOLUTION, course / SOLUTION)
    (course / MISCONCEPTIONS).write_text(WHY + PROMISE + as_toml(FIRST, "One.") + as_toml(SECOND, "Two."))
    text = (course / PAGE).read_text()
    for title, section in SECTIONS.items():
        text = re.sub(
            rf"^## {title}\n.*?(?=^## )", f"## {title}\n\n{section}\n\n", text, flags=re.MULTILINE | re.DOTALL
        )
    (course / PAGE).write_text(text)
    return course


BELOW = """
[[misconception]]
name = "epsilon a little larger"
says = "It is."
fix = "Take less."
find = "variance + epsilon"
replace = "variance + 1.000001 * epsilon"
"""
# Copies of the problem, each with defects that do not hide each other: a file, what is replaced in it by what, and the
# start of a complaint. The last copy has nothing to complain about but its one defect.
DEFECTS = [
    [
        (PAGE, "## Pitfalls", "## Traps", "the page has no section 'Pitfalls'"),
        (PAGE, "[[-1.069", "[[-1.070", "an example of the page is false"),
        (PAGE, "= 3", "= 4", "the example of the prediction 'How many rows?' does not end with its answer"),
        (PAGE, ">>> 1 + 2", ">>> 1 + 1", "the example of a prediction is false"),
        (PAGE, "3. `(x - mean)", "`(x - mean)", "fewer than 3 hints"),
        (PAGE, "layer_norm(x, scale, bias, epsilon) -> out", "norm(x)", "does not mention `layer_norm`"),
        (PAGE, "A row, by hand.", "A row of 987 numbers.", "no example has the number 987 of the worked sketch"),
        (
            PAGE,
            "One idea.",
            "One idea. It raises an error.",
            "no [[claim]] for the page's sentence: It raises an error.",
        ),
        (STUB, "raise NotImplementedError", "return x", "the verdict on the stub is FAIL"),
        (DEFINITION, f'name="{LAST_CHECK}"', 'name="output"', "two checks are called 'output'"),
        (MISCONCEPTIONS, SECOND.replace[0], "    mean = no_such_name", f"{SECOND.name!r} is broken: NameError"),
    ],
    [
        (STUB, "def layer_norm(", "def norm(", "the stub does not define `layer_norm`"),
        (DEFINITION, 'covers=("one",)', 'covers=("axes",)', "the cases 'faint' cover 'axes', but none has"),
        (DEFINITION, 'covers=("coprime",)', 'covers=("coprime", "wide")', "there is no dimension 'wide'"),
        (
            DEFINITION,
            "checks=(",
            "checks=(__import__('grader.checks').checks.exact('none', 1, 'values', 'out', options={'entry': NORM}),",
            "the check 'none' compares nothing: `out` is not among `output`",
        ),
        (
            DEFINITION,
            'cases="distant", tolerance=ROOT',
            'cases="distant", tolerance=Tolerance(0.0, 1e9)',
            "every number passes the check 'rows far from zero'",
        ),
        (
            MISCONCEPTIONS,
            SECOND.replace[0],
            "    mean = x.reshape(-1, 7, 7)",
            f"{SECOND.name!r} needs `raises = true`: TypeError",
        ),
    ],
    [(MISCONCEPTIONS, WHY, "", "nothing says why the reference is written so")],
    [(MISCONCEPTIONS, WHY, "why = ['So.']\n", "`why` must be a text")],
    [(SOLUTION, "    mean = ", "    1 / 0\n    mean = ", "ZeroDivisionError")],
    [(SOLUTION, "    mean = ", "    x = x.at[0, 0].set(jnp.nan)\n    mean = ", "of the reference is NaN")],
    [
        (
            MISCONCEPTIONS,
            f'name = "{SECOND.name}"',
            f'name = "{FIRST.name}"',
            f"two misconceptions are called {FIRST.name!r}",
        )
    ],
    [(MISCONCEPTIONS, SECOND.replace[0], FIRST.replace[0], f"{SECOND.name!r} is identified as nothing")],
    [
        (
            MISCONCEPTIONS,
            "find = ",
            "fnd = ",
            "misconception 1 must have name, says, find, replace, and can have fix, raises, pitfall, not_in and see;",
        )
    ],
    [(MISCONCEPTIONS, "find = ", "raises = 'no'\nfind = ", "`raises` of misconception 1 must be true or false")],
    [(MISCONCEPTIONS, PROMISE, PROMISE + BELOW, "'epsilon a little larger' is not rejected")],
]


def add_copy(course: Path, name: str) -> None:
    """Adds the problem of the course in the folder `course` once more, under another name and without its play."""
    shutil.copytree(course / "problems" / NAME, course / "problems" / name, ignore=shutil.ignore_patterns("play.py"))
    for path in (f"problems/{name}/page.md", *(f"solutions/{NAME}{suffix}" for suffix in (".py", ".toml"))):
        (course / path.replace(NAME, name)).write_text((course / path).read_text().replace(NAME, name))


def test_every_defect_is_reported(copy: Path, grade: Grade):
    """A course of many copies of one problem: the processes of one command find all defects."""
    names = [f"p{number}_layer_norm_{number}" for number in range(10, 10 + len(DEFECTS))]
    for name, defects in zip(names, DEFECTS, strict=True):
        add_copy(copy, name)
        for file, old, new, _ in defects:
            path = copy / file.replace(NAME, name)
            text = path.read_text()
            assert old in text
            path.write_text(text.replace(old, new, 1))
    run = grade("verify", "--json", "--seeds", 0, root=copy)
    assert run.code == 1
    rows = {row["problem"]: row["complaints"] for row in run.json["problems"]}
    assert rows.pop(NAME) == [], "what is not broken is sound"
    for name, defects in zip(names, DEFECTS, strict=True):
        for _, old, new, complaint in defects:
            assert any(complaint in text for text in rows[name]), (old, new, rows[name])
    assert rows[names[-1]] == [DEFECTS[-1][0][3]]


@pytest.mark.thorough
def test_a_misconception_must_be_rejected_with_every_seed(copy: Path, grade: Grade):
    """Another one is wrong only on the cases of seed 0, so that other cases cannot show it."""
    problem = catalog.load(NAME)
    firsts = [float(case.values["x"].flat[0]) for family in draw_all(problem, 0).values() for case in family]
    (copy / MISCONCEPTIONS).write_text(
        (copy / MISCONCEPTIONS).read_text()
        + f"""
[[misconception]]
name = "wrong where the course has looked"
says = "It is."
fix = "Take less."
find = "variance + epsilon"
replace = "variance + epsilon + jnp.isin(x.ravel()[0], jnp.array({firsts}, x.dtype))"
"""
    )
    run = grade("verify", "--json", "--seeds", 1, root=copy)
    (row,) = run.json["problems"]
    told = [text for text in row["complaints"] if "is not rejected" in text]
    assert told == ["'wrong where the course has looked' is not rejected with seed 1 (1 of 1 seeds)"]


@pytest.mark.thorough
def test_pitfalls_and_promises_that_are_not_graded(copy: Path, grade: Grade):
    page, toml = copy / PAGE, copy / MISCONCEPTIONS
    page.write_text(
        page.read_text().replace("- Two.", "- Two.\n- Three.").replace("It must work.", "It must work. It may not.")
    )
    outside = next(
        item for item in catalog.misconceptions(catalog.load(NAME)) if item.name == "no gradient through the statistics"
    )
    blind = PROMISE.replace('"output"', f'"{LAST_CHECK}"').replace(FIRST.name, outside.name)
    toml.write_text(WHY + PROMISE + blind + as_toml(outside, "One.") + toml.read_text().removeprefix(WHY + PROMISE))
    run = grade("verify", "--promises", "--seeds", 0, root=copy)
    assert run.code == 1
    assert [line.strip() for line in run.out.splitlines() if line.startswith("      ")] == [
        "no misconception has the pitfall: Three.",
        "no [[promise]] for the page's sentence: It may not.",
        f"the check {LAST_CHECK!r} does not reject {outside.name!r}, so it does not see the promise: It must work.",
    ] + [f"{check!r} rejects {name!r}" for check, name in (("output", FIRST.name), (LAST_CHECK, outside.name))]
    assert run.out.splitlines()[1].split()[-5:-2] == ["0/0", "2/3", "0/2"]


@pytest.mark.thorough
def test_frames_are_verified(copy: Path, grade: Grade):
    """Without its core a frame must be unfinished, with it right; and each is marked, by whole lines."""
    frames, toml = copy / "solutions" / "frames", copy / MISCONCEPTIONS
    frames.mkdir()
    lines = (
        "mean = x.mean(-1, keepdims=True)",
        "y = x - mean",
        "out = y / jnp.sqrt((y * y).mean(-1)[:, None] + epsilon)",
    )
    core = "".join(f"    {line}\n" for line in lines)
    inner = "".join(f"        {line}\n" for line in lines)
    programs = {
        "good": core,
        "wrong": core.replace("+ eps", "+ 2 * eps"),
        "caught": f"    try:\n{inner}    except NotImplementedError:\n        out = x\n",
        "unmarked": core,
    }
    head = "import jax.numpy as jnp\n\n\ndef layer_norm(x, scale, bias, epsilon):\n"
    for name, body in programs.items():
        (frames / f"p04_{name}.py").write_text(f"{head}{body}    return out * scale + bias\n")
    marked = {"good": core, "wrong": programs["wrong"], "caught": inner}
    tables = [f"[[frame]]\nfile = 'p04_{name}.py'\ncore = ['''\n{block}''']\n\n" for name, block in marked.items()]
    toml.write_text(WHY + "".join(tables) + toml.read_text().removeprefix(WHY))
    (row,) = grade("verify", "--json", "--seeds", 0, root=copy).json["problems"]
    unmarked, caught, *others = row["complaints"]
    assert unmarked == "p04_unmarked.py must be both a file p04_*.py of solutions/frames and the `file` of a [[frame]]"
    assert caught.startswith("without its core, p04_caught.py is FAIL: ")
    assert others[0].startswith("p04_wrong.py fails with seed 0: ")
    assert not any("good" in complaint for complaint in others)
    toml.write_text(toml.read_text().replace("y = x - mean", "y = x + mean", 1))
    (row,) = grade("verify", "--json", "--seeds", 0, root=copy).json["problems"]
    assert "must be whole lines that occur exactly once in p04_good.py" in " ".join(row["complaints"])


@pytest.mark.parametrize(
    ("right", "wrong", "mark"),
    [
        (0.1, 10.0, "ok"),
        (0.0, float("inf"), "ok"),
        (0.11, 10.0, "FAIL"),
        (0.1, 9.9, "FAIL"),
        (float("nan"), 10.0, "FAIL"),
    ],
)
def test_a_margin_needs_room_on_both_sides(right: float, wrong: float, mark: str):
    row = soundness.Row(NAME, margins=[Margin("output", 10.0, right, wrong)])
    assert soundness.margins_table([row]).splitlines()[-1].startswith(f"{mark:5}{NAME}")
