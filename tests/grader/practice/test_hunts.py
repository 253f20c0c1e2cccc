"""Hunts: made of references, styles and misconceptions, disguised, with one fault. Nothing is run here."""

import ast
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commandline.errors import UsageError
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.judge.verdict import CheckResult, Verdict
from grader.practice import hunting, hunts, symptoms
from grader.practice.hunting import HuntSpace
from grader.practice.rename_variables import disguised, new_names
from grader.practice.symptoms import Symptom
from grader.practice.transplant import Edit, Target
from grader.problem import Case
from grader.wire.compare import Mismatch

ATTENTION, LOSS, MODEL = catalog.find("02"), catalog.find("07"), catalog.find("06")
PROGRAMS = [
    text
    for label in ("02", "06", "09", "13", "30", "43", "49")
    for problem in [catalog.find(label)]
    for text in (catalog.solution_text(problem), *(catalog.text_of(path) for path in catalog.styles(problem)))
]


def bare(text: str) -> str:
    """The syntax tree of a program without its docstrings."""
    return ast.dump(ast.parse(disguised(text, {})))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(PROGRAMS), st.text(max_size=5))
def test_a_disguise_changes_names_only(program, seed):
    names = new_names([program], seed)
    hidden = disguised(program, names)
    back = {new: old for old, new in names.items()}
    assert len(back) == len(names), "no two names become one"
    assert bare(disguised(hidden, back)) == bare(program)
    assert "#" not in hidden
    assert hidden == disguised(program, new_names([program], seed)), "it depends on the seed alone"


def test_entries_parameters_and_keywords_keep_their_names():
    source = (
        '"""What it is."""\nimport jax\n\nLIMIT = 3  # a constant\n\n\ndef entry(logits, scale):\n    """Says it."""\n'
        "    weights_TS = logits * scale  # here\n    # and there\n    scale_up = lambda total: total + LIMIT\n"
        '    print(f"{weights_TS}", end="")\n    count = 2\n    return helper(weights_TS, count=count), scale_up(1)\n'
    )
    names = new_names([source], "x")
    assert set(names) == {"scale_up", "total"}
    hidden = disguised(source, names)
    assert hidden.startswith(
        "import jax\n\nLIMIT = 3\n\n\ndef entry(logits, scale):\n    weights_TS = logits * scale\n"
    )


REFERENCE = (
    "import jax\n\n\ndef f(q, k, K):\n    scores = q @ k.T / jax.sqrt(K)\n    return jax.softmax(scores, axis=-1)\n"
)


def with_edit(find: str, replace: str, other: str) -> str | None:
    return Target(other).with_edit(Edit(REFERENCE, REFERENCE.replace(find, replace)))


def test_an_edit_is_carried_to_other_names():
    other = (
        "import jax\n\n\ndef f(query, key, width):\n    sims = query @ key.T / jax.sqrt(width)\n"
        "    return jax.softmax(sims, axis=-1)\n"
    )
    assert "sims = query @ key.T\n" in with_edit(" / jax.sqrt(K)", "", other)
    assert "jax.softmax(sims, axis=0)" in with_edit("axis=-1", "axis=0", other)
    assert "query @ key.T / width" in with_edit("jax.sqrt(K)", "K", other)


@pytest.mark.parametrize(
    "other",
    [
        "import jax\n\n\ndef f(q, k, K):\n    return jax.attend(q, k)\n",
        "import jax\n\n\ndef f(q, k, K):\n    return jax.sqrt(K), jax.sqrt(K)\n",
    ],
)
def test_an_edit_that_does_not_fit_or_fits_twice_is_left_out(other):
    assert with_edit("jax.sqrt(K)", "K", other) is None


def test_an_edit_that_needs_an_unknown_name_is_left_out():
    other = "import jax\n\n\ndef f(a, b, c):\n    return a @ b.T / jax.sqrt(c)\n"
    assert with_edit("jax.sqrt(K)", "jax.sqrt(scores)", other) is None


@pytest.mark.parametrize("problem", [ATTENTION, LOSS, MODEL], ids=lambda problem: problem.label)
def test_only_the_edited_lines_matter(problem):
    found = hunts.of(problem)
    assert len({hunt.id for hunt in found}) == len(found) > 10
    for hunt in found:
        program = hunts.program(hunt, "seed")
        text, correct = program.text.splitlines(), program.correct.splitlines()
        for first, last, start, end in reversed(hunts._changes(program.correct, program.text)):
            assert set(range(start + 1, end + 1)) & program.fault or start == end
            text[start:end] = correct[first:last]
        assert text == correct
        assert 0 < len(program.fault) <= 20
        assert program.ideas[program.answer] == hunt.misconception.name
        assert len(set(program.ideas)) == len(program.ideas) == hunts.IDEAS
        assert not hunting.is_rewrite(program, program.correct)
        assert hunt.misconception.name not in program.text


def test_other_styles_are_hunted_too():
    assert {hunt.base for hunt in hunts.of(MODEL)} > {hunts.REFERENCE}


@pytest.mark.thorough
def test_the_course_offers_hunts():
    """More than 400 over more than 45 problems, those of other styles not counted."""
    counts = [len(hunts.of(problem, styles=False)) for problem in catalog.problems()]
    assert sum(counts) >= 1100, sum(counts)
    assert len([count for count in counts if count > 8]) == len(counts) - 1, "all but the capstone"


def test_a_rewrite_is_seen():
    program = hunts.program(hunts.of(ATTENTION)[0], "s")
    rewrite = catalog.text_of(catalog.styles(ATTENTION)[-1])
    assert hunting.is_rewrite(program, rewrite)
    spaced = program.correct.replace("\n    ", "\n\n    # a comment\n    ", 1)
    assert not hunting.is_rewrite(program, spaced), "comments and blank lines do not count"


SYMPTOM = Symptom(symptoms.by_name("nan"), "It is NaN.")


@pytest.fixture
def home(tmp_path) -> Workspace:
    home = Workspace(tmp_path)
    home.file(ATTENTION).write_text("mine")
    home.remember(ATTENTION, verdict="FAIL", score=1, mistake="softmax over the wrong axis")
    home.remember(ATTENTION, verdict="PASS", score=ATTENTION.points)
    return home


def test_own_mistakes_come_first_and_nothing_twice(home):
    space, seen = HuntSpace.of(home), []
    assert space.candidates()[0].misconception.name == "softmax over the wrong axis"
    for _ in range(5):
        hunt = space.candidates()[0]
        assert hunt.id not in seen
        seen.append(hunt.id)
        space.note_end(space.begin(hunts.program(hunt, "1"), "1", SYMPTOM))


def test_a_hunt_is_answered(home):
    space = HuntSpace.of(home)
    program = hunts.program(space.candidates(ATTENTION)[0], "7")
    begun = space.begin(program, "7", SYMPTOM)
    assert space.file(ATTENTION).read_text() == program.text
    assert home.file(ATTENTION).read_text() == "mine"
    current = space.under_way(ATTENTION)
    assert (current.id, current.symptom, current.kind.name) == (begun.id, "It is NaN.", "nan")
    assert space.program(current) == program
    right = min(program.fault)
    wrong = next(line for line in range(1, 30) if line not in program.fault)
    assert [space.answer_line(current, line) for line in (wrong, right)] == [False, True]
    assert space.answer_idea(current, program.answer)
    assert [space.next_question(current) for _ in range(4)] == [*SYMPTOM.kind.questions, ""]
    with pytest.raises(UsageError, match="there is no line 500"):
        space.answer_line(current, 500)
    again = space.under_way()
    assert (again.lines, again.ideas, again.hints) == ([wrong, right], [program.answer], 3)
    said = "\n".join(hunting.lesson(again, program))
    assert program.hunt.misconception.name in said
    assert SYMPTOM.kind.found[0] in said
    assert "2 tries for the line, 1 try for the idea" in said
    space.note_end(current, mended=True)
    assert space.under_way() is None


def test_the_log_tells_nothing_about_the_fault(home):
    space = HuntSpace.of(home)
    before = (home.folder / ".progress.jsonl").read_text()
    space.begin(hunts.program(space.candidates()[0], "7"), "7", SYMPTOM)
    new = (home.folder / ".progress.jsonl").read_text().removeprefix(before)
    assert "softmax" not in new


def test_hunts_are_of_passed_problems_only(home):
    with pytest.raises(UsageError, match="You have not passed problem 07"):
        HuntSpace.of(home).candidates(LOSS)


def test_a_private_course_has_no_hunts(home, monkeypatch):
    monkeypatch.setattr(catalog, "shows_solution", lambda problem: False)
    with pytest.raises(UsageError, match="You have not passed a problem yet"):
        HuntSpace.of(home).candidates()


def result(check: str, mismatch: Mismatch | None, verdict=Verdict.FAIL, message="") -> CheckResult:
    found = next(each for each in (*ATTENTION.checks, *catalog.find("12").checks) if each.name == check)
    return CheckResult(
        found, verdict, message, mismatch, Case({"q": np.zeros((4, 3)), "scale": 0.5, "text": "long" * 20})
    )


VALUE = dict(kind="value", path="output", index=(0, 1), wrong=3, total=12)


def seen(expected: str, index: tuple[int, int]) -> CheckResult:
    """An output that depends on an input, or does not."""
    got = "no" if expected == "yes" else "yes"
    return result("causality", Mismatch("value", "depends", expected, got, index, wrong=3, total=12))


@pytest.mark.parametrize(
    ("failed", "kind", "parts"),
    [
        (
            result("output", Mismatch(expected="0.5", got="0.25", **VALUE)),
            "values",
            ["`output[0, 1]` of `causal_attention` is 0.25", "(with q (4, 3), scale = 0.5)"],
        ),
        (result("output", Mismatch(expected="0.5", got="nan", **VALUE)), "nan", ["returns nan", "where 0.5 is right"]),
        (result("gradient", Mismatch(expected="0.5", got="0.25", **VALUE)), "gradient", ["3 of 12 values differ"]),
        (seen("no", (1, 2)), "leak", ["too good to be true", "output 1 depends on input 2"]),
        (seen("no", (5, 0)), "too far", ["output 5 depends on input 0"]),
        (seen("yes", (1, 2)), "blind", ["output 1 does not depend on input 2"]),
        (result("output", Mismatch("shape", "output", "(4, 3)", "(3, 4)")), "shape", ["has shape (3, 4)"]),
        (result("output", Mismatch("missing", "w", "float32[3]", "nothing")), "tree", ["`w` is missing"]),
        (result("output", None, Verdict.ERROR, "TypeError: no (line 3)"), "stops", ["traceback: TypeError: no"]),
        (result("output", None, Verdict.TIMEOUT, "no result"), "hangs", ["does not end"]),
        (result("memory of one microbatch", Mismatch(expected="at most "
            "9", got="80", **VALUE)), "memory", ["80, and at most 9"]),
        (result("no more parts than `microbatches`", Mismatch(expected="at most "
            "9", got="80", **VALUE)), "slow", ["80"]),
    ],
)  # fmt: skip
def test_symptoms(failed, kind, parts):
    if failed.mismatch and failed.mismatch.kind != "value":
        failed = CheckResult(failed.check, failed.verdict, failed.mismatch.sentence(), failed.mismatch, failed.case)
    symptom = symptoms.of(failed)
    assert symptom.kind.name == kind
    for part in parts:
        assert part in symptom.text, symptom.text
    assert "{" not in symptom.text
    assert "line 3" not in symptom.text


def test_small_arrays_of_whole_numbers_are_shown():
    ids = np.array([3, 0, 2], np.int32)
    failed = replace(
        result("output", Mismatch(expected="0.5", got="0.25", **VALUE)),
        case=Case({"token_ids": ids, "many": np.arange(40), "x": np.zeros(3)}),
    )
    assert "(with token_ids = [3, 0, 2], many (40,), x (3,))" in symptoms.of(failed).text


def test_hunts_with_one_kind_of_symptom_end_with_different_advice(home):
    space, said = HuntSpace.of(home), list[str]()
    for hunt in space.candidates(ATTENTION)[:3]:
        program = hunts.program(hunt, "7")
        space.begin(program, "7", Symptom(symptoms.by_name("values"), "Its numbers differ."))
        current = space.under_way(ATTENTION)
        said.append(hunting.lesson(current, program)[1])
        space.note_end(current)
    assert len(set(said)) == 3


def test_a_telling_symptom_is_shown_first():
    values = result("output", Mismatch(expected="0.5", got="0.25", **VALUE))
    gradient = result("gradient", Mismatch(expected="0.5", got="0.25", **VALUE))
    leak = seen("no", (1, 2))
    assert symptoms.of(values, gradient, leak).kind.name == "leak"
    assert symptoms.of(values, gradient).kind.name == "values", "the loss would not agree"


def test_every_kind_has_questions_and_a_lesson():
    for kind in symptoms.kinds():
        assert len(kind.questions) == 3
        assert all("?" in question for question in kind.questions)
        assert all(len(way) > 100 for way in kind.found)
    last = symptoms.kinds()[-1]
    assert (last.names, last.outcome) == ((), ""), "it fits everything"


def test_a_bare_answer_is_about_the_hunt_that_was_shown_last(home):
    home.remember(LOSS, verdict="PASS", score=LOSS.points)
    space = HuntSpace.of(home)
    first = space.begin(hunts.program(space.candidates(ATTENTION)[0], "7"), "7", SYMPTOM)
    second = space.begin(hunts.program(space.candidates(LOSS)[0], "7"), "7", SYMPTOM)
    assert space.under_way().id == second.id
    space.note_shown(space.under_way(ATTENTION))
    assert space.under_way().id == first.id
    length = len(home.entries())
    space.note_shown(space.under_way())
    assert len(home.entries()) == length, "nothing new to note"


def test_answers_that_are_dated_before_their_hunt_count(home):
    space = HuntSpace.of(home)
    program = hunts.program(space.candidates(ATTENTION)[0], "7")
    space.answer_line(space.begin(program, "7", SYMPTOM), min(program.fault))
    *others, begun, answer = home.entries()
    (known,) = hunting.recorded_hunts([*others, answer, begun])
    assert known.lines == [min(program.fault)]


def test_ideas_that_contain_each_other_are_not_offered_together():
    for problem in (ATTENTION, LOSS, MODEL):
        for hunt in hunts.of(problem):
            own, ideas = hunt.misconception.name, hunts.program(hunt, "s").ideas
            assert not any(hunts._is_like(own, each) for each in ideas if each != own)


def test_a_line_that_is_missing_at_the_end_has_a_number():
    assert hunts._whole("a = 1\nb = 2", {2, 3}) == {2, 3}
    assert hunting._numbers([2, 4, 5, 6]) == "lines 2 and 4 to 6"
