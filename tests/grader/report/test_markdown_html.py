"""Markdown of the course as HTML: its formulas have the spaces of TeX."""

import re

import pytest

from grader.report.markdown_html import to_html

pytestmark = pytest.mark.fast
THIN = '<mspace width="0.167em" />'


@pytest.mark.parametrize(
    ("latex", "shown"),
    [
        (r"\operatorname{softmax}(x)", "<mi>softmax</mi><mo"),
        (r"\ln \sigma", f"<mi>ln</mi>{THIN}<mi>"),
        (r"\ln(x)", "<mi>ln</mi><mo"),
        (r"2 \ln x", f"<mn>2</mn>{THIN}<mi>ln</mi>"),
        (r"\log_2 R", f"<msub><mi>log</mi><mn>2</mn></msub>{THIN}<mi>R</mi>"),
        (r"x_t y", "<msub><mi>x</mi><mi>t</mi></msub><mi>y</mi>"),
        (r"y = -x", '<mo form="prefix">&#x02212;</mo><mi>x</mi>'),
        (r"y - x", "<mo>&#x02212;</mo><mi>x</mi>"),
        (r"\text{max\_norm}", "<mtext>max_norm</mtext>"),
    ],
)
def test_a_formula_has_the_spaces_of_tex(latex: str, shown: str):
    assert shown in re.sub(r"\s+(?=<)", "", to_html(f"```math\n{latex}\n```"))
