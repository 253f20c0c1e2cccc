"""Bills are equal to counts by hand, whatever the machine, and say where the work is."""

from math import ceil

import pytest

from grader.cost import bill
from grader.cost.bill import Bill, Uncounted
from grader.cost.figures import TRAFFIC, WORK
from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import submission as submission_
from grader.judge.submission import Submission


def counted(word: str, fork_server: ForkServer, text: str | None = None) -> Bill:
    problem = catalog.find(word)
    source = submission_.reference(problem) if text is None else Submission("own.py", {problem.name: text})
    result = bill.count(problem, source, fork_server)
    assert isinstance(result, Bill), result
    return result


def attention(sizes: dict[str, int]) -> dict[str, int]:
    T, K = sizes["T"], sizes["K"]
    # Two products forward and four backward. Elementwise: the mask, which is an index plus an offset, compared and
    # selected (3 T²), and applied (T² forward and backward); the division by the root (T² each, and the root); the
    # softmax (5 T² + T forward, 6 T² + 4 T backward). The last two are conversions of numbers, and the projection of
    # the output whose gradient is taken, T K.
    return {"products": 6 * 2 * T * T * K, "elementwise": 18 * T * T + 5 * T + T * K + 3, "moved": 0}


def multi_head(sizes: dict[str, int]) -> dict[str, int]:
    T, D = sizes["T"], sizes["H"] * sizes["K"]
    # Four projections: forward, and the gradients of their parameters. Of the inputs, only that of the last one needs
    # a gradient. All heads together attend as one head of width D.
    return {"products": 4 * 2 * T * D * D * 2 + 2 * T * D * D + 6 * 2 * T * T * D}


def train_steps(sizes: dict[str, int]) -> dict[str, int]:
    V, B, T, D, F = (sizes[name] for name in "VBTDF")
    # Two layers, forward and the gradients of inputs and parameters, in four steps.
    return {"products": 4 * 3 * 2 * B * T * (D * F + F * V)}


def chunks(sizes: dict[str, int]) -> dict[str, int]:
    T, D, V, C = (sizes[name] for name in ("T", "D", "V", "C"))
    rows = ceil((T - 1) / C) * C
    # The loss alone takes the logits. With gradients, it takes them twice, because the backward pass computes them
    # again, and the gradients of both factors.
    return {"products": 5 * 2 * rows * D * V}


def decoding(sizes: dict[str, int]) -> dict[str, int]:
    T, V, F, L, D = sizes["T"], sizes["V"], sizes["F"], sizes["L"], sizes["H"] * sizes["K"]
    # Each step: four projections, two layers of the MLP, attention to all T places of the cache, and the logits.
    return {"products": T * (L * (4 * 2 * D * D + 2 * 2 * D * F + 2 * 2 * T * D) + 2 * D * V)}


def grouped_queries(sizes: dict[str, int]) -> dict[str, int]:
    T, G, H, K = sizes["T"], sizes["G"], sizes["G"] * sizes["R"], sizes["K"]
    D = H * K
    # Each step: the projections of queries and outputs (D D), of keys and values (D G K), and attention.
    return {"products": T * (2 * 2 * D * D + 2 * 2 * D * G * K + 2 * 2 * T * H * K)}


def blocks(sizes: dict[str, int]) -> dict[str, int]:
    T, K, C = (sizes[name] for name in "TKC")
    N = ceil(T / C)
    # Two products of each pair of blocks that the mask shows, and five in the backward pass, with the scores again.
    return {"products": 7 * 2 * C * C * K * N * (N + 1) // 2, "bytes_of_outputs": 4 * (4 * T * K)}


def sums(sizes: dict[str, int]) -> dict[str, int]:
    V, D, F = (sizes[name] for name in "VDF")
    # One `psum` of the gradients of an embedding and two layers, and one of the loss and the number of targets.
    return {"collectives": 2, "sent_bytes": 4 * (V * D + D * F + F + F * V) + 4 * 2, "hops": 0}


@pytest.mark.parametrize(
    ("word", "by_hand"),
    [
        ("02", attention), ("03", multi_head), ("08", train_steps), ("18", chunks), ("30", decoding),
        ("39", grouped_queries), ("43", blocks), ("47", sums),
    ],
)  # fmt: skip
def test_a_bill_equals_the_count_by_hand(word: str, by_hand, fork_server: ForkServer):
    found, run = counted(word, fork_server), bill.run_of(catalog.find(word))
    assert run
    expected = by_hand(run[1].sizes)
    assert {name: found.figures[name] for name in expected} == expected
    assert WORK.of(found.figures) == sum(line.work for line in found.lines)
    assert TRAFFIC.of(found.figures) == sum(line.traffic for line in found.lines)


def test_a_helper_that_is_called_twice_is_one_line_with_both_callers(fork_server: ForkServer):
    text = """
import jax, jax.numpy as jnp

@jax.jit
def squared(x):
    return jnp.where(x > 0, x, 0) * x

def causal_attention(q, k, v):
    scores = q @ k.T / jnp.sqrt(q.shape[1])
    scores = squared(scores)
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape)) > 0, scores, -1e9)
    scores = squared(scores)
    return scores @ v
"""
    lines = {line.line: line for line in counted("02", fork_server, text).lines if line.file}
    name = "own.py"
    assert lines[6].callers == ((name, 10), (name, 12))
    T, K = 11, 5
    assert lines[9].products == 3 * 2 * T * T * K, "forward, and the gradients of q and k"
    assert lines[9].masked == ()
    assert lines[11].products == 0


def test_a_product_that_a_mask_hides_in_part_is_known(fork_server: ForkServer):
    lines = counted("02", fork_server).lines
    assert [line.masked for line in lines if line.products][:1] == [(11, 11)]


def test_a_backward_pass_of_its_own_has_its_own_lines(fork_server: ForkServer):
    text = submission_.reference(catalog.find("43")).sources["p43_flash_attention"].splitlines()
    lines = [line for line in counted("43", fork_server).lines if line.products]
    assert any("d_weights_CC" in text[line.line - 1] for line in lines)
    assert sum(line.products for line in lines if "defvjp" in text[line.line - 1]) == 0


def test_code_that_does_not_run_is_no_bill(fork_server: ForkServer):
    problem = catalog.find("02")
    result = bill.count(
        problem, Submission("own.py", {problem.name: "def causal_attention(q, k, v): return w"}), fork_server
    )
    assert isinstance(result, Uncounted)
    assert "NameError" in result.sentence()
