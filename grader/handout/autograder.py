"""The autograder.py of Classroom 50: grades a checkout with the learners' bundle beside it, in the folder `course`.

Classroom 50's runner runs it in the checkout, with any Python that it has, so it needs the standard library only. It
installs the bundle in a virtual environment and writes result.json and release-body.md. It fails only if it cannot
grade.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COURSE = Path(__file__).resolve().parent / "course"


def main() -> None:
    """Grades the current folder, or its folder `attempts`."""
    checkout = Path("attempts") if Path("attempts").is_dir() else Path()
    with tempfile.TemporaryDirectory() as name:
        python, space = install(Path(name, "venv")), Path(name, "attempts")
        space.mkdir()
        for path in checkout.glob("p[0-9][0-9]_*.py"):
            if path.is_file() and not path.is_symlink():
                shutil.copy(path, space)
        labels = sorted(path.parent.name[1:3] for path in COURSE.glob("problems/p*/problem.py"))
        result = merged([graded(python, space, label) for label in labels])
    Path("result.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    Path("release-body.md").write_text(release_body(result), encoding="utf-8")


def install(environment: Path) -> Path:
    """Installs the bundle in a new virtual environment. Returns its Python."""
    run(environment.parent, sys.executable, "-m", "venv", environment).check_returncode()
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(environment.parent, python, "-m", "pip", "install", "--quiet", "--editable", COURSE).check_returncode()
    return python


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder of our own: `-m` imports modules from there, and the checkout may have others of that
    name."""
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)


def graded(python: Path, space: Path, label: str) -> dict[str, Any]:
    """Returns the result of one problem. Exits if it cannot be graded."""
    done = run(space.parent, python, "-m", "grader", "--workspace", space, "problem", label, "--format", "classroom50")
    if done.returncode not in (0, 1):  # passed, not passed
        sys.exit(f"problem {label} could not be graded")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def merged(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns one result for all problems."""
    totals = {key: sum(result[key] for result in results) for key in ("score", "max-score")}
    return {**results[0], **totals, "tests": [test for result in results for test in result["tests"]]}


def release_body(result: dict[str, Any]) -> str:
    """Returns the text of the release: a table of the checks, then why those that failed did."""
    lines = [f"### {result['score']} of {result['max-score']} points", "", "| Check | | Points |", "|---|---|---|"]
    for test in result["tests"]:
        word = "passed" if test["passed"] else "failed"
        lines.append(f"| {test['test-name']} | {word} | {test['score']}/{test['max-score']} |")
    for test in result["tests"]:
        if test["output"]:
            lines += ["", f"**{test['test-name']}**", "", *(f"    {line}" for line in test["output"].splitlines())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
