"""The line of a file that a report is about."""

from unittest.mock import Mock

import pytest

from grader.course import catalog
from grader.judge.counterexample import Part
from grader.judge.verdict import Report
from grader.report import source_lines

TEXT = """
class GPTBlock:
    def __init__(self, d_model, rngs):
        self.ln1 = make(d_model)

    def __call__(self, x):
        x = x + self.attn(self.ln1(x))
        for block in self.blocks:
            x = block(x)
        return x
"""


def report(*parts: Part, line: int = 0) -> Report:
    return Report(catalog.find("05"), "mine.py", [], line=line, counterexample=Mock(tree=parts))


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ((Part("(whole)", "wrong"), Part("ln1", "faulty")), 7),
        ((Part("blocks.0.attn", "faulty"),), 7),
        ((Part("blocks.0.ff", "faulty"),), 8),
        ((Part("ln1", "never called"), Part("attn", "right")), 7),
        ((Part("(whole)", "faulty"),), 2),
        ((Part("elsewhere", "faulty"),), 2),
        ((), 2),
    ],
)
def test_the_statement_that_uses_the_first_faulty_submodule(parts, line):
    assert source_lines.of(report(*parts), TEXT) == line


def test_where_the_code_stopped_comes_first():
    assert source_lines.of(report(Part("ln1", "faulty"), line=9), TEXT) == 9
    assert source_lines.of(report(line=900), TEXT) == 2, "a line that the file does not have is not believed"
    assert source_lines.of(report(), "not python (") == 1
