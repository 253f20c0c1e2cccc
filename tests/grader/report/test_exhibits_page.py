"""Exhibits as pages: everything is there, nothing of it is markup, and bad numbers break nothing."""

import re

import pytest

from grader.exhibits import Bar, Bars, Ending, HeatMap, Line, Lines, Plane, Story, Table, Token
from grader.report import exhibits_page

pytestmark = pytest.mark.fast

NAN, LARGE = float("nan"), 1e300
ATTACK = "<script>alert(1)</script>"
ODD = [
    Story("A `title`", (Token(ATTACK, NAN), Token("b", 3.0, None, ((ATTACK, 0.5),))), ATTACK, meaning="bits"),
    Story("Kinds", (Token("a", kind=0),), kinds=(ATTACK,)),
    Story("Nothing", ()),
    HeatMap("Map", (ATTACK, "s"), ("a", "b"), (Plane(((0.5, NAN), (2.0, -LARGE)), ATTACK),)),
    HeatMap("Empty cells", ("r",), ("a", "b"), (Plane(((0.5, 0.0),), "", (("x", ""),)),)),
    HeatMap("No plane", (), (), ()),
    Lines("Curves", (Line(ATTACK, (-1.0, 1.0), (NAN, LARGE)), Line("none", (), ())), log=True),
    Lines("No value", (Line("yours", (0.0,), (NAN,)),)),
    Bars("Bars", (Bar(ATTACK, NAN, LARGE), Bar("memory", 612_352.0)), ATTACK),
    Bars("No bar", (), "bytes"),
    Table("A table", ("", ATTACK), (("a", ATTACK),)),
]


@pytest.mark.parametrize("exhibit", ODD, ids=lambda exhibit: exhibit.title)
def test_an_exhibit_is_a_figure_whatever_is_in_it(exhibit):
    page = exhibits_page.render(exhibit)
    assert "<script" not in page
    assert page.count("<figure") == page.count("</figure>") == 1


def test_numbers_are_in_words_and_tables():
    page = exhibits_page.render(ODD[8])
    assert ">612,352<" in page
    assert "A <code>title</code>" in exhibits_page.render(ODD[0])
    hatched = exhibits_page.render(ODD[3])
    assert "Hatched: outside of the scale, or not a number." in hatched
    cells = re.findall(r'<td class="cell[^>]*>\s*([^<\s]*)', exhibits_page.render(ODD[4]))
    assert cells == ["x", ""]


def test_a_page_needs_nothing_else():
    page = exhibits_page.document("Problem 02: see it work", "The course", ODD, Ending("It ended early.", "", ATTACK))
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<figure") == len(ODD)
    assert "It ended early." in page
    assert "<script>alert" not in page
    assert not re.search(r"(src|href)=", page)
