"""What decides a verdict, as a fingerprint: another one means that a submission has to be graded again.

It covers the modules that the judge and its workers import, without comments and docstrings, and the versions of packages. Code
that only shows, collects or plans is left out.
"""

import ast
import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.course import catalog
from grader.isolation.sandbox import FLAX_MODES
from grader.judge.cache import digest, versions
from grader.paths import ROOT
from grader.problem import Problem

_ROOTS = ("grader.judge.judge", "grader.worker.main", "grader.worker.zygote")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NO_PART = ("hypothesis",)  # packages: it only searches for a smaller failing case


def of(problem: Problem) -> str:
    """The fingerprint of a problem: its definition, probes, reference and misconceptions, and the grader with its packages."""
    modes = [f"{name}={os.environ.get(name)}" for name in FLAX_MODES]
    own = [path for path in sorted(problem.folder.glob("*.py")) if path.name not in ("stub.py", "play.py")]
    modules = _imported([*_ROOTS, *(name for path in own for name in _read(path).imports)])
    references = [part for item in sorted(catalog.reference_sources(problem).items()) for part in item]
    misconceptions = catalog.text_of(catalog.solution_path(problem).with_suffix(".toml"))
    packages = [line for line in versions() if line.split()[0] not in _NO_PART]
    code = [_read(path).code for path in (*own, *sorted(modules))]
    return digest([*packages, *modes, platform.machine(), sys.platform, *code, misconceptions, *references])


@dataclass(frozen=True)
class _Module:
    """What a module imports, wherever in its code, and its code without comments, docstrings and layout."""

    imports: tuple[str, ...]
    code: str


def _imported(names: Iterable[str]) -> set[Path]:
    """The files of this distribution that these modules are, and all that they import."""
    found, todo = set[Path](), [*names]
    while todo:
        path = _file(todo.pop())
        if path and path not in found:
            found.add(path)
            todo += _read(path).imports
    return found


def _file(name: str) -> Path | None:
    """The file of a module of this distribution; None of others."""
    base = ROOT.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def _read(path: Path) -> _Module:
    tree, imports = ast.parse(path.read_bytes()), list[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return _Module(tuple(imports), ast.dump(tree))
