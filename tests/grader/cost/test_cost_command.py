"""`grade cost` and `grade records`, as a learner sees them."""

import json
from pathlib import Path

import pytest

from grader.cost import compare
from grader.cost.bill import Bill, Line
from grader.cost.compare import Known
from grader.cost.figures import NAMES
from grader.course import catalog
from tests.conftest import ROOT, Grade

FLASH = catalog.find("43")
RIGHT = catalog.text_of(catalog.solution_path(FLASH))
# Every block of queries meets all keys, and a mask hides the later ones.
MASKED = """
import jax
import jax.numpy as jnp


def flash_attention(q, k, v, block, causal=True, return_lse=False):
    T, K = q.shape
    q_blocks = jnp.pad(q, ((0, -T % block), (0, 0))).reshape(-1, block, K)
    rows = jnp.arange(q_blocks.shape[0] * block).reshape(-1, block)

    @jax.checkpoint
    def one(args):
        q_block, t = args
        scores = q_block @ k.T / jnp.sqrt(K)
        if causal:
            scores = jnp.where(t[:, None] >= jnp.arange(T), scores, -jnp.inf)
        lse = jax.nn.logsumexp(scores, axis=-1)
        return jnp.exp(scores - lse[:, None]) @ v, lse

    out, lse = jax.lax.map(one, (q_blocks, rows))
    out, lse = out.reshape(-1, K)[:T], lse.reshape(-1)[:T]
    return (out, lse) if return_lse else out
"""


def test_the_bill_says_what_the_difference_is_made_of(grade: Grade, tmp_path: Path):
    (tmp_path / "masked.py").write_text(MASKED)
    run = grade("cost", "43", "masked.py")
    assert run.code == 0, run.err
    words = " ".join(run.out.split())
    assert "It takes 1.9 times the operations of the reference. Most of the difference is matrix products" in words
    assert "Line 14 multiplies all of 32 × 350 numbers, and a mask hides a part of them afterwards." in words
    assert "masked.py" in run.out
    assert max(map(len, run.out.splitlines())) <= 80
    found = json.loads(grade("cost", "43", "masked.py", "--json").out)
    assert found["bill"]["figures"]["products"] == 7 * 2 * 32 * 350 * 8 * 11
    assert {each["machine"]["name"] for each in found["roofline"]} == {"One CPU core", "H100", "H200", "TPU v5e"}


@pytest.mark.fast
def test_work_that_is_done_in_two_places_is_named_with_both():
    callers = (("own.py", 81), ("own.py", 89))
    lines = [
        Line("own.py", 34, 90, 0, 0, masked=(32, 32)),
        Line("own.py", 72, 110, 0, 0, 30, callers, masked=(32, 32)),
        Line("own.py", 76, 100, 0, 0, 90, callers),
    ]
    reference = dict.fromkeys(NAMES, 1) | {"products": 200, "read_bytes": 80}
    bill = Bill(dict.fromkeys(NAMES, 0) | {"products": 300, "read_bytes": 120}, lines)
    assert compare.explained(bill, Known("", {compare.REFERENCE: reference})) == (
        "It takes 1.5 times the operations of the reference. Most of the difference is matrix products: 300, the "
        "reference 200. Lines 72 and 76 have 70% of them, in a function that is called in lines 81 and 89. It reads "
        "and writes 1.5 times the bytes of the reference. Line 76 has 75% of them."
    )


@pytest.mark.thorough
def test_records_are_those_of_what_passed(grade: Grade, tmp_path: Path):
    work = tmp_path / "attempts"
    work.mkdir()
    file = work / f"{FLASH.name}.py"
    file.write_text(MASKED)
    assert "It sets no record: this text has not passed as a whole." in grade("cost", "43").out
    assert "There are no records yet" in grade("records", "43").out
    other = next(path for path in catalog.styles(FLASH) if "list_of_pairs" in path.name)
    for text in (catalog.text_of(other), RIGHT):
        file.write_text(text)
        passed = grade("problem", "43")
        assert passed.code == 0
        assert "`grade cost 43` counts what it costs." in passed.out
        counted = grade("cost", "43")
    assert "New record: scalar operations, 8,893,462 after" in " ".join(counted.out.split())
    assert "8,893,462" in grade("records").out
    own = grade("records", "43").out
    assert "in 2 programs that passed" in own
    assert "yours, on the front" in own
    assert "It takes 8,893,462 scalar operations." in grade("problem", "43").out
    found = json.loads(grade("records", "--json").out)["problems"]
    assert [(each["problem"], each["records"]["work"]) for each in found] == [(FLASH.name, 8_893_462)]


def test_any_function_can_be_counted(grade: Grade, tmp_path: Path):
    (tmp_path / "any.py").write_text(
        "import jax.numpy as jnp\n\ndef f(x, n):\n    return sum(x @ x.T for _ in range(n))\n"
    )
    run = grade("cost", "--entry", "f", "any.py", "--args", "x: f32[64,16], n: 3", "--html", "cost.html")
    assert run.code == 0, run.err
    assert f"{3 * 2 * 64 * 64 * 16:,}" in run.out
    page = (tmp_path / "cost.html").read_text(encoding="utf-8")
    assert "return sum(x @ x.T for _ in range(n))" in page
    for given, says in (
        ("x: f3[64]", "f3 is not a dtype of `x`; use one of f32,"),
        ("x", "'x' is not an argument; write 'x: f32[1024,64], n: 3'."),
        ("x: [", "`x` cannot be '['; write an array such as f32[1024,64], or a number."),
    ):
        wrong = grade("cost", "--entry", "f", "any.py", "--args", given)
        assert wrong.code == 2
        assert says in wrong.err


def test_plain_python_is_timed_beside_the_reference(grade: Grade):
    run = grade("cost", "64", ROOT / "solutions" / "p64_continuous_batching.py")
    assert run.code == 0, run.err
    assert "times the reference" in " ".join(run.out.split())
    assert "calls: 15, the reference 15" in run.out


def test_code_that_does_not_run_exits_1(grade: Grade, tmp_path: Path):
    (tmp_path / "wrong.py").write_text(
        "def flash_attention(q, k, v, block, causal=True, return_lse=False):\n    return w\n"
    )
    run = grade("cost", "43", "wrong.py")
    assert run.code == 1
    assert "There is nothing to count: NameError" in run.out
