"""A failing case as a Python script that a learner can run, debug and change."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from commandline import files
from commandline.errors import UsageError
from grader.course import cases, selection
from grader.judge.counterexample import Counterexample
from grader.judge.verdict import Report
from grader.paths import ROOT
from grader.problem import Case, Check, Entry, Problem
from grader.wire.compare import Values

MOST_LITERAL = 200  # numbers of an array; a larger one is saved beside the script
_MARK = "# Unchanged: "
_LARGEST = 1 << 20  # bytes, of a script that is compared with what was written


@dataclass(frozen=True)
class Tried:
    """The case to try.

    Attributes:
        problem: The problem.
        check: The check that the case belongs to.
        case: The case.
        expected: The arrays that the reference returns, by path.
        failed: Whether it is a failing case.
    """

    problem: Problem
    check: Check
    case: Case
    expected: Mapping[str, Values]
    failed: bool

    @classmethod
    def of(cls, report: Report, seed: int = 0) -> "Tried":
        """Returns the failing case of a report, or else the first case of the problem's first check."""
        shown, failed = report.counterexample, report.first_failure
        if shown is None or failed is None:
            check = report.problem.checks[0]
            return cls(report.problem, check, cases.draw(report.problem, check.cases, seed)[0], {}, failed=False)
        return cls(report.problem, failed.check, shown.case, _expected(shown), failed=True)

    def arrays(self) -> dict[str, Any]:
        """Returns the case and the expected arrays, as `grader.tryout.saved` reads them."""
        case = {f"case.{key}": np.asarray(value) for key, value in self.case.values.items()}
        return case | {f"expected.{path}": array for path, array in self.expected.items()}


def name_of(problem: Problem) -> str:
    """Returns the name of the script for a problem."""
    return f"try_p{problem.label}.py"


def path_beside(file: Path, problem: Problem) -> Path:
    """Returns the path of the script for a learner's file."""
    return file.with_name(name_of(problem))


def write_beside(file: Path, tried: Tried) -> tuple[Path, Path | None]:
    """Writes the script that runs a learner's file on a case, beside it. Returns its path, and that of an edited one
    that was there, which is kept. Raises UsageError if it cannot be written."""
    path = path_beside(file, tried.problem)
    return path, Script(tried, file.stem, path.with_suffix(".npz").name).write(path)


def _expected(shown: Counterexample) -> dict[str, Values]:
    leaves = [leaf for leaf in shown.leaves if leaf.expected is not None]
    return {leaf.path: leaf.expected.values for leaf in leaves if leaf.expected and leaf.expected.shape == leaf.shape}


@dataclass
class Script:
    """The script for a case. `data` holds the arrays that are too large for its text, for a file named `data_file`."""

    tried: Tried
    module: str
    data_file: str
    data: dict[str, Values] = field(default_factory=dict)

    def text(self) -> str:
        """Returns the script. A comment at its end tells whether somebody has edited it."""
        body = "\n".join(self._lines()) + "\n"
        return f"{body}\n{_MARK}{_digest(body)}\n"

    def write(self, path: Path) -> Path | None:
        """Writes the script and its arrays. A script there that somebody has edited is renamed; returns its new
        path."""
        text, kept = self.text(), _keep(path)
        if self.data:
            files.write(path.with_suffix(".npz"), self._save)
        files.write(path, text)
        return kept

    def _save(self, path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, **dict[str, Any](self.data))

    def _lines(self) -> list[str]:
        tried, problem = self.tried, self.tried.problem
        entry = self._entry()
        values = [(name, self._literal(f"case.{name}", value)) for name, value in tried.case.values.items()]
        case = [f"{name} = {value}" for name, value in values]
        if entry is None:
            case = ["case = {", *(f"    {name!r}: {value}," for name, value in values), "}"]
        expected = [
            f"    {path!r}: {self._literal(f'expected.{path}', array)}," for path, array in tried.expected.items()
        ]
        which = (
            f"on which it fails the check {tried.check.name!r}"
            if tried.failed
            else f"of the check {tried.check.name!r}"
        )
        script = name_of(problem)
        return [
            f'"""Runs {self.module}.py on the case {which}, outside of the grader.',
            "",
            f"    python {script}            prints what it returns" + " beside what is expected" * bool(expected),
            f"    python -m pdb {script}     runs it in the debugger",
            "",
            f"Change it as you like: `grade try {problem.label}` keeps an edited copy.",
            '"""',
            "",
            *["from pathlib import Path", ""] * bool(self.data),
            "from grader import tryout",
            "",
            f"tryout.start(devices={problem.devices})  # before anything else uses JAX",
            "",
            "import jax.numpy as jnp",
            *["import numpy as np"] * bool(self.data),
            *["from flax import nnx"] * bool(entry and entry.is_module),
            "",
            f"from {self.module} import {entry.name}" if entry else f"import {self.module} as submission",
            "",
            *[f"data = np.load(Path(__file__).with_name({self.data_file!r}))", ""] * bool(self.data),
            *case,
            *["expected = {", *expected, "}"] * bool(expected),
            "",
            f"check = tryout.check({', '.join(map(repr, [problem.label, tried.check.name, *_course()]))})",
            *self._call(entry),
            f"check.show({'expected' if expected else '{}'}, got)",
        ]  # fmt: skip

    def _entry(self) -> Entry | None:
        """Returns the entry to call. None if the check does more than compare what one call returns: then its own probe
        is run."""
        check, problem = self.tried.check, self.tried.problem
        name = check.options.get("entry", "")
        if check.probe != "values" or check.leaves != "output" or "fill" in check.options or not name:
            return None
        entry = problem.entry(name)
        return None if entry.made_by else entry

    def _call(self, entry: Entry | None) -> list[str]:
        seed = self.tried.case.seed
        if entry is None:
            return [f"got = check.run(submission, case, seed={seed})"]
        arguments, names = ", ".join(entry.passed(self.tried.case)), "".join(f", {name!r}" for name in entry.returns)
        if not entry.is_module:
            return [f"got = tryout.output({entry.name}({arguments}){names})"]
        known = [name for name in entry.construct or () if name in self.tried.case.values]
        hyper = ", ".join([*known, f"rngs=nnx.Rngs({seed})"])
        return [
            f"module = {entry.name}({hyper})",
            f"tryout.fill(module, seed={seed})  # by name, with the values that it is graded with",
            f"got = tryout.output(module({arguments}){names})",
        ]

    def _literal(self, key: str, value: Any) -> str:
        """Returns the value as Python. A large array, or one with values that Python has no literal for, is read from
        the data file."""
        if not isinstance(value, np.ndarray | np.generic):
            return repr(value) if not isinstance(value, float) or np.isfinite(value) else f"float({str(value)!r})"
        if value.size > MOST_LITERAL or (value.dtype.kind in "fc" and not np.isfinite(value).all()) or not value.size:
            self.data[key] = np.asarray(value)
            return f"jnp.asarray(data[{key!r}])"
        text = np.array2string(
            np.asarray(value),
            separator=", ",
            threshold=MOST_LITERAL + 1,
            max_line_width=100,
            formatter={"float_kind": str},  # the shortest text that gives the same number
        )
        if "\n" in text:
            text = "\n    " + text.replace("\n", "\n    ") + ",\n    "
        else:
            text += ", "
        return f"jnp.array({text}dtype={str(value.dtype)!r})"


def _course() -> list[str]:
    """Returns the course of the script, if it is not the one that the grader comes with."""
    root = selection.selected().root
    return [] if root == ROOT else [selection.name_of(root)]


def is_unchanged(text: str) -> bool:
    """Returns whether a script is as `Script.text` wrote it."""
    body, mark, digest = text.rpartition(f"\n{_MARK}")
    return bool(mark) and digest.strip() == _digest(body)


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _keep(path: Path) -> Path | None:
    """Renames a script that somebody has edited. Returns its new path."""
    try:
        text = files.read_regular(path, _LARGEST).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except (OSError, files.NotRegularFileError) as error:
        raise UsageError(f"{path} {files.why_unreadable(error)}.") from None
    if is_unchanged(text.replace("\r\n", "\n")):
        return None
    kept = next(
        new for number in range(1, 10_000) if not (new := path.with_name(f"{path.stem}_kept{number}.py")).exists()
    )
    path.rename(kept)
    return kept
