"""The fingerprint of everything that decides a verdict. If it changes, a submission has to be graded again.

It covers the modules that the judge and its workers import, without comments and docstrings, and the versions of
packages. Code that only shows, collects or plans is left out.
"""

import os
import platform
import sys

from grader.course import catalog, imports
from grader.isolation.sandbox import FLAX_MODES
from grader.judge.cache import digest, versions
from grader.paths import ROOT
from grader.problem import Problem

_ROOTS = ("grader.judge.judge", "grader.worker.main", "grader.worker.zygote")
_NO_PART = ("hypothesis",)  # packages: it only searches for a smaller failing case


def of(problem: Problem) -> str:
    """Returns the fingerprint of a problem: its definition, probes, reference and misconceptions, and the grader with
    its packages."""
    modes = [f"{name}={os.environ.get(name)}" for name in FLAX_MODES]
    own = [path for path in sorted(problem.folder.glob("*.py")) if path.name not in ("stub.py", "play.py")]
    modules = imports.files([*_ROOTS, *(name for path in own for name in imports.read(path).imports)], ROOT)
    references = [part for item in sorted(catalog.reference_sources(problem).items()) for part in item]
    misconceptions = catalog.text_of(catalog.solution_path(problem).with_suffix(".toml"))
    packages = [line for line in versions() if line.split()[0] not in _NO_PART]
    code = [imports.read(path).code for path in (*own, *sorted(modules))]
    return digest([*packages, *modes, platform.machine(), sys.platform, *code, misconceptions, *references])
