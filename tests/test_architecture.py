"""The import contracts in pyproject.toml hold, and break when a room imports what it must not."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.fast

LINT = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"]


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(LINT, cwd=root, capture_output=True, text=True, check=False)


def test_the_contracts_hold():
    run = lint_imports(ROOT)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("grader/judge/judge.py", "from grader.worker import main", "Judge and worker never import each other BROKEN"),
        ("grader/judge/judge.py", "import jax", "Only workers import JAX BROKEN"),
        ("grader/report/terminal.py", "import flax.nnx", "Only workers import JAX BROKEN"),
        (
            "grader/worker/main.py",
            "from grader.judge import verdict",
            "Judge and worker never import each other BROKEN",
        ),
        ("grader/worker/main.py", "import harness.config", "Grader and harness are independent of each other BROKEN"),
        ("grader/cli/learner.py", "import studio.app", "they do not know it BROKEN"),
        ("studio/hand_ins.py", "import hosting.inbox", "nothing knows hosting, which is an extra BROKEN"),
        ("hosting/told.py", "import hosting.app", "The service of a hub, from its start down to"),
        ("hosting/app.py", "import jax", "Only workers import JAX BROKEN"),
        ("commandline/files.py", "import grader.problem", "What the commands share imports none of them BROKEN"),
        ("hosting/lti/claims.py", "import hosting.lti.keys", "The modules of the LTI tool, from its routes down"),
    ],
)
def test_a_forbidden_import_breaks_a_contract(module: str, line: str, broken: str, tmp_path: Path):
    for package in ("commandline", "grader", "harness", "hosting", "studio"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / module).open("a") as file:
        file.write(f"\n{line}\n")
    run = lint_imports(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert broken in run.stdout


def test_problems_use_nothing_of_the_grader_but_the_authoring_interface():
    """Import-linter does not see them: the folder of a problem is no package."""
    found = set[str]()
    for path in (ROOT / "problems").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                found |= (
                    {f"{node.module}.{one.name}" for one in node.names}
                    if node.module == "grader"
                    else {str(node.module)}
                )
            elif isinstance(node, ast.Import):
                found |= {one.name for one in node.names}
    used = {name for name in found if name.partition(".")[0] == "grader"}
    assert used == {"grader.authoring", "grader.checks", "grader.exhibits", "grader.problem"}


def test_files_are_short():
    names = ("commandline", "grader", "harness", "hosting", "studio", "problems", "solutions", "benchmarks")
    packages = [ROOT / name for name in names]
    files = [path for package in packages for path in package.rglob("*.py")]
    assert {str(path) for path in files if len(path.read_text().splitlines()) > 600} == set()


def test_lines_of_documents_are_short():
    """But tables, links, code, and what another test writes."""
    files = [path for name in ("docs", "problems", "tasks") for path in (ROOT / name).rglob("*.md")]
    long = list[str]()
    for path in (*ROOT.glob("*.md"), *files):
        text = re.sub(r"^```.*?^```|^<!-- .*?^<!-- end", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for line in text.splitlines():
            prose = re.sub(r"`[^`]*`", "", line)
            if len(line) > 100 and len(prose) > 40 and not line.startswith("|") and "](" not in line:
                long.append(f"{path.relative_to(ROOT)}: {line}")
    assert long == []
