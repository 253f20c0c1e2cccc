"""The models of today: what they are made of, the problems that teach it, and what of it a learner knows."""

import re

import pytest

from grader.course import catalog, models
from tests.conftest import ROOT, Grade

pytestmark = pytest.mark.fast


def test_ten_models_have_parts_that_problems_of_the_course_teach():
    every = models.every()
    assert len(every) == 10
    text = models.path().read_text(encoding="utf-8")
    assert sum(len(model.parts) for model in every) == len(re.findall(r"^\| (?!Part |---)", text, re.MULTILINE))
    numbers = {number for row in re.findall(r"\| ([\d, ]+) \|$", text, re.MULTILINE) for number in row.split(", ")}
    assert numbers <= {name.label for name in catalog.names()}
    for model in every:
        assert re.search("`configuration_|README", model.source), "its sizes come from a public file"
        assert len(model.parts) >= 5
        assert len({part.name for part in model.parts}) == len(model.parts)


def test_a_part_is_known_when_all_of_its_problems_have_passed():
    model = models.find("gemma 3")
    norms = next(part for part in model.parts if len(part.problems) == 2)
    first, second = map(str, norms.problems)
    assert not norms.is_known({first})
    assert norms.is_known({first, second})
    assert model.known(set()) == 0
    page = models.as_page(lambda name: f"{name}.md", {first, second})
    assert f"| ✓ {norms.name} |" in page
    assert f"[{first[1:3]}]({first}.md)" in page
    assert "✓" not in models.as_page(str)


def test_the_document_is_the_file_of_the_course():
    assert (ROOT / "docs" / "models.md").read_text() == models.path().read_text()


def test_the_command_says_what_a_learner_knows(grade: Grade):
    listed = grade("models")
    assert listed.code == 0, listed.err
    assert re.search(r"^Qwen3 +you know 0 of \d+ parts$", listed.out, re.MULTILINE)
    shown = grade("models", "gpt-oss").out
    assert "`grade show 39` teaches it." in shown.replace("\n", " ")
    wrong = grade("models", "gptoss")
    assert (wrong.code, wrong.err) == (2, "grade: There is no model 'gptoss'. Did you mean 'gpt-oss'?\n")
