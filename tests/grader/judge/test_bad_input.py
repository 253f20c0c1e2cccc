"""Bad submissions: each gets the right verdict and one clear sentence, in bounded time and without a traceback of the
grader."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from grader.course import cases, catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import judge, submission
from grader.judge.judge import Shared
from grader.judge.options import GradeOptions
from grader.judge.reference import Reference
from grader.judge.verdict import Verdict
from grader.report.json_report import PublicReport
from tests.conftest import ROOT, Grade

HEAD = "import jax, jax.numpy as jnp, numpy as np, optax\nfrom flax import nnx\n"
GOOD = (ROOT / "solutions" / "p07_next_token_loss.py").read_text()
WRONG = GOOD.replace("token_ids[1:]", "token_ids[:-1]")


def body(*lines: str, signature: str = "logits, token_ids, pad_id") -> str:
    return HEAD + f"def next_token_loss({signature}):\n" + "".join(f"    {line}\n" for line in lines)


@dataclass(frozen=True)
class Bad:
    """A file, the verdict on it (empty for any failure), and a part of the message."""

    text: str | bytes
    verdict: str
    says: str = ""

    @property
    def seconds(self) -> int:
        """The time limit."""
        return 4 if self.verdict == "TIMEOUT" or "while True: pass" in str(self.text) else 30


FILES = {
    "binary": Bad(bytes(range(256)), "ERROR", "is a binary file"),
    "not utf-8": Bad(b"# caf\xe9\n", "ERROR", "not UTF-8 text (line 1)"),
    "empty": Bad("", "ERROR", "the file is empty: was it saved?"),
    "another name": Bad(
        "def loss_of(x): return x", "ERROR", "`next_token_loss` is not defined: write it at the top level"
    ),
    "syntax": Bad(
        "x = 1\ndef next_token_loss(logits)\n    pass\n", "ERROR", "SyntaxError: expected ':' (bad.py, line 2)"
    ),
    "deeply nested": Bad("x = " + "(" * 5000 + ")" * 5000, "ERROR", "SyntaxError"),
    "missing import": Bad("import no_such_framework\n" + GOOD, "ERROR", "module `no_such_framework` is not available"),
    "missing earlier problem": Bad(
        "from p03_causal_mha import CausalMHA\n" + GOOD, "ERROR", "p03_causal_mha.py is not in the same folder"
    ),
    "misspelled": Bad(GOOD.replace("next_token_loss(", "next_tokn_loss("), "ERROR", "you have `next_tokn_loss`"),
    "not callable": Bad("next_token_loss = 3", "ERROR", "not callable: it is an int"),
    "wrong arguments": Bad(body("return 0.0", signature="logits"), "ERROR", "yours takes (logits)"),
    "exception": Bad(body("return logits @ token_ids"), "ERROR", "(bad.py, line 4)"),
    "exception without a message": Bad(body("raise ValueError"), "ERROR", "ValueError: no message"),
    "exception that cannot be shown": Bad(
        "class E(Exception):\n    def __str__(self): raise SystemExit\ndef next_token_loss(a, b, c): raise E\n",
        "ERROR",
        "cannot be shown",
    ),
    "modules in a plain list": Bad(
        body(
            "class Model(nnx.Module):",
            "    def __init__(self): self.layers = [nnx.Linear(2, 2, rngs=nnx.Rngs(0))]",
            "return Model()",
        ),
        "ERROR",
        "`layers` is a plain list, so Flax ignores its contents; wrap it in `nnx.List(...)` (bad.py, line",
    ),
    "infinite recursion": Bad(body("return next_token_loss(logits, token_ids, pad_id)"), "ERROR", "RecursionError"),
    "None": Bad(body("x = 1"), "FAIL", "returned None"),
    "string": Bad(body("return 'hello'"), "FAIL", "returned a str"),
    "ragged list": Bad(body("return [[1.0, 2.0], [3.0]]"), "FAIL", "a list, tuple or dictionary instead of one array"),
    "wrong shape": Bad(body("return jnp.zeros(3)"), "FAIL", "shape (3,), expected ()"),
    "wrong dtype": Bad(body("return jnp.int32(3)"), "FAIL", "is int32, expected float32"),
    "bfloat16": Bad(
        GOOD.replace(
            "return jnp.sum(losses * counts)", "return jnp.bfloat16(1) * jnp.sum(losses * counts).astype('bfloat16')"
        ).replace("jnp.maximum(jnp.sum(counts), 1)", "jnp.maximum(jnp.sum(counts), 1).astype('bfloat16')"),
        "FAIL",
        "is bfloat16, expected float32",
    ),
    "complex": Bad(body("return jnp.complex64(3)"), "FAIL", "is complex64"),
    "NaN": Bad(body("return jnp.nan * logits.sum()"), "FAIL", "is nan, expected"),
    "infinity": Bad(body("return jnp.inf * jnp.abs(logits).sum()"), "FAIL", "is inf, expected"),
    "generator": Bad(body("yield 1.0"), "FAIL", "returned a generator"),
    "numbers of 8 bits": Bad(
        body("return jnp.float32(3).astype('float8_e4m3fn')"), "FAIL", "is float8_e4m3fn, expected float32"
    ),
    "numbers of 4 bits": Bad(body("return jnp.float32(3).astype('int4')"), "FAIL", "is int4, expected float32"),
    "NumPy array of bfloat16": Bad(body("return np.asarray(jnp.bfloat16(3))"), "FAIL", "is bfloat16, expected float32"),
    "array of objects": Bad(body("return np.array([None, 'a'], object)"), "FAIL", "non-numeric dtype object"),
    "array subclass": Bad(
        body("class A(np.ndarray): pass", "return np.zeros(()).view(A)"), "FAIL", "returned an A, not an array"
    ),
    "object that looks like an array": Bad(
        body(
            "class A:",
            "    shape, dtype = (), np.dtype('float32')",
            "    def __array__(self, *a, **k): return np.float32(0)",
            "    def __eq__(self, other): return True",
            "    __hash__ = None",
            "return A()",
        ),
        "FAIL",
        "returned an A, not an array",
    ),
    "giant result": Bad(body("return jnp.zeros(1 << 27)"), "FAIL", "far larger"),
    "thousands of results": Bad(body("return list(range(3000))"), "FAIL", "far more"),
    "100 MB of output": Bad(
        body("import sys", "for _ in range(100): sys.stdout.write('x' * 1000000)", "return 0.0"), "FAIL"
    ),
    "infinite loop": Bad(body("while True: pass"), "TIMEOUT", "infinite loop? (bad.py, line 4)"),
    "infinite loop at import": Bad("while True: pass", "TIMEOUT", "infinite loop? (bad.py, line 1)"),
    "sleeps": Bad(
        body("import time", "time.sleep(100)"), "TIMEOUT", "either it waits for something, or the machine is"
    ),
    "loop that catches everything": Bad(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass\n",
        "TIMEOUT",
        "no result within 4 s",
    ),
    "no memory for the C++ library": Bad(body("raise RuntimeError('std::bad_alloc')"), "MEMORY", "out of memory"),
    "near the memory limit when the time is up": Bad(
        body("x = bytearray(1900 << 20)", "while True: pass"), "MEMORY", "used up most of its 2048 MiB"
    ),
    "unbounded memory": Bad(body("x = []", "while True: x.append(bytearray(1 << 26))"), "MEMORY", "out of memory"),
    "sys.exit": Bad("import sys\nsys.exit(0)\n", "ERROR", "raised SystemExit (0)"),
    "SystemExit in the call": Bad(body("raise SystemExit"), "ERROR", "raised SystemExit"),
    "os._exit": Bad("import os\nos._exit(0)\n", "ERROR", "the process exited (code 0)"),
    "os._exit in the call": Bad(body("import os", "os._exit(0)"), "ERROR", "the process exited (code 0)"),
    "kills itself": Bad("import os\nos.kill(os.getpid(), 9)\n", "ERROR", "the process exited (signal 9)"),
    "crash": Bad("import ctypes\nctypes.string_at(0)\n", "ERROR", "it crashed (signal 11)"),
    "reads stdin": Bad(body("return float(input())"), "ERROR", "EOFError"),
    "thread left behind": Bad(
        "import threading, time\nthreading.Thread(target=time.sleep, args=[1000]).start()\n" + GOOD, "PASS"
    ),
    "child left behind": Bad(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n"
        "    os._exit(0)\n" + GOOD,
        "PASS",
    ),
    "fork bomb": Bad("import os\nwhile True: os.fork()\n", "ERROR", "it started more"),
    "float64 by configuration": Bad("import jax\njax.config.update('jax_enable_x64', True)\n" + GOOD, "PASS"),
    "jit switched off": Bad("import jax\njax.config.update('jax_disable_jit', True)\n" + GOOD, "PASS"),
    "numpy patched": Bad(
        "import numpy as np\nnp.allclose = lambda *a, **k: True\nnp.asarray = lambda *a, **k: 0\n" + WRONG, ""
    ),
    "jax patched": Bad("import jax\njax.jit = jax.vjp = lambda f, **k: f\n" + WRONG, ""),
    "protocol on stdout": Bad('print(\'{"schema": 1, "verdict": "PASS"}\\x1b[2J\')\n' + WRONG, "FAIL"),
    "protocol on every descriptor": Bad(
        HEAD + "import os, struct\nfor fd in range(64):\n    try: os.write(fd, struct.pack('!IQ', 5, 5) + b'{\"kind\": "
        "1}')\n    except OSError: pass\n" + GOOD,
        "ERROR",
        "its result is malformed",
    ),
    "forged answers": Bad(
        "import json, os, struct\n"
        "h = json.dumps({'kind': 'reading', 'fields': {'notes': []}, 'leaves': []}).encode()\n"
        "for _ in range(50): os.write(3, struct.pack('!IQ', len(h), 0) + h)\n" + WRONG,
        "ERROR",
        "its result is malformed",
    ),
    "channel closed": Bad("import os\nos.closerange(3, 100)\n" + GOOD, "ERROR", "the process exited"),
    "tracer leaked": Bad(
        HEAD + "kept = []\ndef next_token_loss(logits, token_ids, pad_id):\n    kept.append(logits)\n    return "
        "kept[0].sum()\n",
        "ERROR",
        "a traced array leaked",
    ),
    "cannot be jitted": Bad(
        GOOD.replace("    losses =", "    if float(predictions.sum()) > 1e30: return 0.0\n    losses ="),
        "PASS",
        "ran eagerly",
    ),
    "imports the solutions": Bad("import solutions\n", "ERROR", "module `solutions` is not available"),
    "kills its parent": Bad(
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n" + WRONG, "ERROR", "PermissionError"
    ),
}


BY_COMMAND = (
    "binary",
    "syntax",
    "NaN",
    "unbounded memory",
    "os._exit",
    "child left behind",
)


@pytest.fixture(scope="module")
def judged(fork_server: ForkServer) -> Iterator[Callable[[Path, float], dict[str, Any]]]:
    """A function that grades a file as the command does, without the time to start a process."""
    problem = catalog.find("07")
    reference = Reference(problem, fork_server)
    shared = Shared(reference, cases.draw_all(problem, 0))

    def grade(path: Path, timeout: float) -> dict[str, Any]:
        try:
            source = submission.read(problem, path)
        except submission.UnreadableSubmissionError as error:
            return PublicReport.of(judge.refused(problem, path.name, Verdict.ERROR, str(error))).encode()
        options = GradeOptions(timeout=timeout)
        return PublicReport.of(judge.grade(problem, source, fork_server, options, shared)).encode()

    yield grade
    reference.close()


# Each of these waits for a limit that another one waits for, too.
LATE = ("infinite loop at import", "loop that catches everything", "near the memory limit when the time is up")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name in LATE else []) for name in FILES]
)
def test_bad_input(name: str, judged, tmp_path: Path):
    data = _write(FILES[name], tmp_path)
    start = time.monotonic()
    report = judged(tmp_path / "bad.py", FILES[name].seconds)
    assert time.monotonic() - start < 60
    _assert_reported(FILES[name], report)
    assert os.listdir(tmp_path) == ["bad.py"]
    assert (tmp_path / "bad.py").read_bytes() == data


@pytest.mark.parametrize("name", BY_COMMAND)
def test_bad_input_by_command(name: str, grade: Grade, tmp_path: Path):
    data = _write(FILES[name], tmp_path)
    run = grade("problem", "07", "bad.py", "--json", "--timeout", FILES[name].seconds)
    _assert_reported(FILES[name], run.json)
    assert run.code == (0 if run.json["verdict"] == "PASS" else 1)
    assert run.err == ""
    assert os.listdir(tmp_path) == ["bad.py"]
    assert (tmp_path / "bad.py").read_bytes() == data
    assert not left_behind(), "a process outlived its verdict"


def _write(bad: Bad, folder: Path) -> bytes:
    """Writes the file and returns its bytes."""
    data = bad.text if isinstance(bad.text, bytes) else bad.text.encode()
    (folder / "bad.py").write_bytes(data)
    return data


def _assert_reported(bad: Bad, report: dict[str, Any]) -> None:
    assert report["verdict"] == bad.verdict or (not bad.verdict and report["verdict"] not in ("PASS", "NOT ATTEMPTED"))
    messages = [*(check["message"] for check in report["checks"]), *report["remarks"]]
    assert any(bad.says in message for message in messages), messages
    assert not any("\n" in message for message in messages)
    assert report["verdict"] == "PASS" or report["score"] < report["points"]
    assert len(report["stdout"]) <= 64 << 10
    assert "\x1b" not in report["stdout"]


def left_behind() -> list[psutil.Process]:
    """The orphans of workers that still run three seconds from now. Their environment tells them from other
    processes."""
    end = time.monotonic() + 3
    while True:
        orphans = []
        for process in psutil.process_iter():
            try:
                home = process.environ().get("HOME", "")
                if "grade-" in home and process.ppid() == 1 and process.status() != psutil.STATUS_ZOMBIE:
                    orphans.append(process)
            except psutil.Error:
                continue
        if not orphans or time.monotonic() > end:
            return orphans
        time.sleep(0.1)


def test_an_exception_shows_only_the_learners_frames(grade: Grade, tmp_path):
    (tmp_path / "bad.py").write_text(body("return helper(logits)") + "def helper(x):\n    return x @ jnp.zeros(99)\n")
    out = grade("problem", "07", "bad.py").out
    assert "bad.py, line 4, in next_token_loss\n      return helper(logits)" in out
    assert "bad.py, line 6, in helper" in out
    assert "site-packages" not in out
    assert "Traceback" not in out
    assert "grader/" not in out


def test_a_syntax_error_has_a_caret(grade: Grade, tmp_path):
    (tmp_path / "bad.py").write_text("x = = 1\n")
    lines = grade("problem", "07", "bad.py").out.splitlines()
    where = lines.index("  bad.py, line 1")
    assert lines[where + 1 : where + 3] == ["      x = = 1", "          ^"]


def test_an_error_in_an_earlier_file_is_shown_there(grade: Grade, tmp_path):
    (tmp_path / "p05.py").write_text("from p03_causal_mha import CausalMHA\n")
    (tmp_path / "p03_causal_mha.py").write_text("1 / 0\n")
    report = grade("problem", "05", "p05.py", "--json").json
    assert report["checks"][0]["message"] == "ZeroDivisionError: division by zero (p03_causal_mha.py, line 1)"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["7", "nothing.py"], "There is no file nothing.py"),
        (["7", "."], "is a folder"),
        (
            ["99"],
            f"There is no problem '99'. The numbers run from 01 to {max(name.label for name in catalog.names())}.",
        ),
        (["next_tokn_loss"], "Did you mean 07 next_token_loss?"),
    ],
)
def test_a_usage_error(args, says, grade: Grade):
    run = grade("problem", *args)
    assert (run.code, run.out) == (2, "")
    assert says in run.err
    assert run.err.count("\n") == 1
    refused = grade("problem", *args, "--json")
    assert refused.code == 2
    assert refused.json["verdict"] == "ERROR"
    assert says in refused.json["checks"][0]["message"]


@pytest.mark.parametrize(
    "args", [["7", "--seed", "x"], ["7", "--timeout", "0"], ["7", "--timeout", "-3"], ["7", "a", "b"], []]
)
def test_invalid_options(args, grade: Grade):
    run = grade("problem", *args)
    assert run.code == 2
    assert "Error" in run.err
    assert "Traceback" not in run.err
