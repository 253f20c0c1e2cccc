"""The line of a learner's file that a report is about, for editors and for tests that one can jump to."""

import ast
import re
from collections.abc import Iterator

from grader.course import imports
from grader.judge.verdict import Report

_FAULTY = ("faulty", "never called")


def definition(text: str, name: str) -> int:
    """Returns the line, from 1, of the first `def` or `class` of that name; 1 if there is none."""
    pattern = re.compile(rf"\s*(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)


def of(report: Report, text: str) -> int:
    """Returns the line, from 1, that matters in the file with this text.

    It is where its code stopped. Otherwise it is the statement that computes the first faulty submodule, where that is
    known, and else the definition of the first entry.
    """
    count = len(text.splitlines())
    if 0 < report.line <= count:
        return report.line
    return _computing(report, text) or definition(text, report.problem.entries[0].name)


def _computing(report: Report, text: str) -> int:
    """Returns the line of the statement that uses the first faulty submodule; 0 if that is unknown."""
    tree = imports.parse(text)
    parts = report.counterexample.tree if report.counterexample else ()
    faulty = next((part.path for kind in _FAULTY for part in parts if part.state == kind), "")
    if tree is None or not faulty:
        return 0
    uses = list(_uses(tree))
    # `blocks.0.attn` is used as `self.attn` where its class is in this file, and otherwise in a loop over
    # `self.blocks`.
    for name in reversed([part for part in faulty.split(".") if part.isidentifier()]):
        if lines := [line for used, line in uses if used == name]:
            return lines[0]
    return 0


def _uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yields each attribute of `self` that a method other than `__init__` reads, with the line of its statement."""
    methods = (
        method
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
    )
    for method in methods:
        if not method.args.args:
            continue
        own = method.args.args[0].arg
        for node in ast.walk(method):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own:
                yield node.attr, node.lineno
