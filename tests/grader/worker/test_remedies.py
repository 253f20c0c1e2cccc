"""What a learner is told to do about JAX's own errors, and about a function that calls itself without end."""

import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from grader.judge.worker_session import failure_from
from grader.wire.clock import Clock
from grader.worker.exceptions import fields
from grader.worker.pytrees import BadOutputError, named
from grader.worker.remedies import remedy
from grader.worker.time_limit import DEEPEST, computing, time_limit
from grader.worker.tracing import UntraceableError, trace
from tests.conftest import ROOT, Grade

pytestmark = pytest.mark.fast

X, MASK, N = (
    jax.ShapeDtypeStruct((2, 3, 4), "float32"),
    jax.ShapeDtypeStruct((2,), "bool"),
    jax.ShapeDtypeStruct((), "int32"),
)


@pytest.mark.parametrize(
    ("code", "clause"),
    [
        (lambda x, mask, n: float(x.sum()), "keep it an array: leave out `float(...)`"),
        (lambda x, mask, n: int(n), "keep it an array: leave out `int(...)`"),
        (lambda x, mask, n: n.item(), "keep it an array: leave out `.item()`"),
        (lambda x, mask, n: x.tolist(), "keep it an array: leave out `.tolist()`"),
        (lambda x, mask, n: x if n > 0 else -x, "`jnp.where` or `jax.lax.cond` in place of `if`"),
        (lambda x, mask, n: [x for _ in range(n)], "`jax.lax.fori_loop` in place of `range`"),
        (lambda x, mask, n: [1, 2][n], "index a JAX array in place of a list"),
        (lambda x, mask, n: x[mask], "keep the shape with `jnp.where(mask, x, 0)`"),
        (lambda x, mask, n: jnp.nonzero(mask), "`jnp.where` with three arguments"),
        (lambda x, mask, n: jnp.unique(x), "`jnp.where` with three arguments"),
        (lambda x, mask, n: x[:n], "use `jax.lax.dynamic_slice`"),
        (lambda x, mask, n: jnp.zeros(n), "take sizes from `x.shape`"),
        (lambda x, mask, n: jnp.arange(n), "take sizes from `x.shape`"),
        (lambda x, mask, n: np.exp(x), "use `jnp` in place of `np`"),
        (lambda x, mask, n: x.transpose(-2, -1), "use `x.swapaxes(-2, -1)` for PyTorch's `x.transpose(-2, -1)`"),
        (lambda x, mask, n: x[0] @ x[0], "the left array has 4 numbers, and the axis of the right one"),
        (lambda x, mask, n: x.sum(dim=-1), "`dim` is `axis` in JAX"),
        (lambda x, mask, n: x.sum(-1, keepdim=True), "`keepdim` is `keepdims` in JAX"),
        (lambda x, mask, n: x.unsqueeze(0), "a JAX array has no `unsqueeze`"),
    ],
)  # fmt: skip
def test_an_error_of_jax_says_what_to_do(code, clause):
    with pytest.raises(Exception) as raised:  # noqa: PT011  each has another type
        jax.eval_shape(code, X, MASK, N)
    assert clause in remedy(raised.value)


def test_an_error_of_the_codes_own_is_not_told_the_remedy_of_one_that_it_handled():
    def looked_up(x):
        try:
            return np.exp(x)
        except jax.errors.TracerArrayConversionError:
            return {}[str(x.shape)]

    with pytest.raises(KeyError) as raised:
        jax.eval_shape(looked_up, X)
    assert isinstance(raised.value.__context__, jax.errors.TracerArrayConversionError)
    assert remedy(raised.value) == ""


def test_an_array_that_was_donated():
    x = jnp.ones(3)
    jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    with pytest.raises(RuntimeError) as raised:
        x + 1
    assert "use what that function returned, or do not donate it" in remedy(raised.value)


def test_other_errors_have_none():
    assert remedy(ValueError("Array has been deleted")) == ""
    assert remedy(TypeError("unsupported operand")) == ""


def test_code_that_cannot_be_traced_says_why():
    def program(x):
        return {"output": float(x)}

    with pytest.raises(UntraceableError, match=r"\(ConcretizationTypeError\); .*leave out `float"):
        trace(program, N)


def test_the_sentence_is_the_first_line_and_the_remedy():
    try:
        jax.eval_shape(lambda x: float(x), N)
    except Exception as error:
        failure = failure_from(fields(error, {__file__}))
    assert failure.sentence() == (
        "ConcretizationTypeError: Abstract tracer value encountered where concrete value is expected: traced array "
        f"with shape int32[] ({failure.frames[-1][0]}, line {failure.frames[-1][1]}); inside jit or grad an array has "
        "no number yet, so keep it an array: leave out `float(...)`"
    )


def test_a_leaf_that_is_no_array_is_named():
    state = nnx.state(nnx.eval_shape(lambda: nnx.Linear(2, 3, rngs=nnx.Rngs(0))))
    with pytest.raises(
        BadOutputError, match=r"^`model\.bias` is a ShapeDtypeStruct, not an array; it has a shape but no numbers"
    ):
        named(state, "model")
    with pytest.raises(BadOutputError, match=r"^returned a str, not an array$"):
        named("text", "output")
    with pytest.raises(BadOutputError, match=r"^`balance` is a str, not an array$"):
        named({"balance": "text"}, "output")


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (nnx.Dict({"topic": 1.0}), "returned an nnx.Dict, which is a module and has no variables; return a dict"),
        (nnx.List([1.0]), "returned an nnx.List, which is a module and has no variables; return a list"),
    ],
)
def test_a_container_of_modules_is_not_what_a_function_returns(returned, told):
    with pytest.raises(BadOutputError) as raised:
        named(returned, "output")
    assert str(raised.value) == told


def test_endless_recursion_that_is_slow_is_one():
    """JAX takes half a minute to trace a thousand calls, which would be a TIMEOUT."""
    source = "def descend(n):\n    import time\n    time.sleep(0.001)\n    return descend(n + 1)\n"
    namespace: dict = {}
    exec(compile(source, "mine.py", "exec"), namespace)
    start = time.monotonic()
    with pytest.raises(RecursionError) as raised, time_limit(2.0, Clock(2.0, time.process_time), {"mine": "mine.py"}):
        namespace["descend"](0)
    assert time.monotonic() - start < 2.0
    failure = failure_from(fields(raised.value, {"mine.py"}))
    told = "RecursionError: `descend` calls itself without end, or more deeply than Python allows (mine.py, line"
    assert failure.sentence().startswith(told)


def test_a_process_that_waits_for_a_child_computes():
    """Otherwise a submission whose programs run in children would be asleep on a busy machine, and time out."""
    before, own = computing(), time.process_time()
    spin = "import time\nwhile time.process_time() < 0.5:\n    pass"
    subprocess.run([sys.executable, "-S", "-c", spin], check=True)
    assert computing() - before >= 0.4
    assert time.process_time() - own < 0.4


def test_a_text_that_is_nested_too_deeply_for_its_parser_is_no_call_without_end():
    """The function calls the parser once, and the parser calls itself."""
    source = "import json\ndef read(text):\n    return json.loads(text)\n"
    namespace: dict = {}
    exec(compile(source, "mine.py", "exec"), namespace)
    with pytest.raises(RecursionError) as raised:
        namespace["read"]("[" * 200_000)
    sentence = failure_from(fields(raised.value, {"mine.py"})).sentence()
    assert "calls itself" not in sentence
    assert "maximum recursion depth exceeded" in sentence
    assert "mine.py, line 3" in sentence


def test_a_deep_call_that_ends_is_none():
    source = "def descend(n):\n    import time\n    time.sleep(0.001)\n    return n and descend(n - 1)\n"
    namespace: dict = {}
    exec(compile(source, "mine.py", "exec"), namespace)
    with time_limit(2.0, Clock(2.0, time.process_time), {"mine": "mine.py"}):
        assert namespace["descend"](DEEPEST - 50) == 0


def test_an_assertion_error_is_called_one(grade: Grade, tmp_path):
    source = (ROOT / "solutions" / "p01_token_embedding.py").read_text()
    assert source.count("raise ValueError(") == 1
    (tmp_path / "mine.py").write_text(source.replace("raise ValueError(", "raise AssertionError("))
    (check,) = (check for check in grade("problem", "01", "mine.py", "--json").json["checks"] if not check["passed"])
    assert "raised AssertionError; ValueError expected" in check["message"]
