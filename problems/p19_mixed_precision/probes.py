"""Probes of problem 19: logits and loss, and the gradient of the loss. Run in workers."""

from collections.abc import Collection, Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from grader.authoring import Arrays, Execution, Reading, Subject, given, named, stablehlo
from grader.problem import Case


def precision(subject: Subject, case: Case, *, rows: float = 1.0) -> Reading:
    """Logits and loss. The dtypes of this program's operations are measured. `rows` multiplies the rows of the
    embedding, whose filled values are small where the vocabulary is large."""
    V = case.values["vocab_size"]
    graphdef, parameters, rest = subject.build("MixedLM", case)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        if rows != 1.0:
            parameters = jax.tree.map(lambda leaf: leaf * rows if leaf.shape[:1] == (V,) else leaf, parameters)
        model = nnx.merge(graphdef, parameters, rest)
        return {
            **named(model(token_ids), "logits"),
            **named(subject.call("mixed_loss", model, token_ids, case.values["pad_id"]), "loss"),
        }

    return subject.run(program, case, parameters, given(case, "token_ids"))


def slope(subject: Subject, case: Case) -> Reading:
    """The gradient of the loss."""
    graphdef, parameters, rest = subject.build("MixedLM", case)

    def loss(parameters: Any, token_ids: Any) -> Any:
        return subject.call("mixed_loss", nnx.merge(graphdef, parameters, rest), token_ids, case.values["pad_id"])

    def program(parameters: Any, token_ids: Any) -> Arrays:
        return named(jax.grad(loss)(parameters, token_ids), "gradient")

    return subject.run(program, case, parameters, given(case, "token_ids"))


# Operations that must not work on bfloat16, as StableHLO names them. A maximum is exact in any precision.
NEED_FLOAT32 = {
    "exponential": "exponentials", "exponential_minus_one": "exponentials", "logistic": "exponentials",
    "power": "exponentials", "log": "logarithms", "log_plus_one": "logarithms", "rsqrt": "roots", "sqrt": "roots",
    "reduce": "sums", "reduce_window": "sums",
}  # fmt: skip


def products_not_in_bfloat16(execution: Execution) -> dict[str, Any]:
    """The number of products with an operand that is not bfloat16, by kind."""
    counts = dict.fromkeys(("projections", "scores", "weighted_sum", "feed_forward", "head", "without_dot"), 0)
    for kind, product in _products(execution):
        counts[kind] += any(dtype != "bf16" for dtype in stablehlo.dtypes(product.operands))
    # A product can also be written as a multiplication and a sum. The smallest, of the scores, multiplies T * T * D
    # numbers.
    smallest = np.shape(execution.case.values["token_ids"])[-1] ** 2 * int(execution.case.values["d_model"])
    for operation in stablehlo.operations(execution.compiled.parsed):
        if operation.name == "stablehlo.multiply" and np.prod(stablehlo.shape(operation.results[0])) >= smallest:
            counts["without_dot"] += stablehlo.dtypes(operation.results) != ["bf16"]
    return {kind: np.int32(count) for kind, count in counts.items()}


def in_bfloat16(execution: Execution) -> dict[str, Any]:
    """The number of NEED_FLOAT32 operations on bfloat16 by kind, and of head products that return it. For the loss, the
    number of roundings to bfloat16 after the head.

    The root of a single number is that of a size, such as the width of a head, and no part of a norm.
    """
    counts = dict.fromkeys(("exponentials", "logarithms", "roots", "roots_of_sizes", "sums", "logits", "loss"), 0)
    for operation in stablehlo.operations(execution.compiled.parsed):
        kind = NEED_FLOAT32.get(operation.name.removeprefix("stablehlo."))
        if kind and "bf16" in stablehlo.dtypes(operation.operands):
            kind += "_of_sizes" * (kind == "roots" and not stablehlo.shape(operation.operands[0]))
            counts[kind] += kind != "sums" or stablehlo.reduces_by(operation, "stablehlo.add")
    # XLA may drop a rounding to bfloat16 that a cast to float32 follows, so the values do not show it.
    heads = {product for kind, product in _products(execution) if kind == "head"}
    counts["logits"] = sum(stablehlo.dtypes(product.results) != ["f32"] for product in heads)
    counts["loss"] = _roundings_after(heads, execution.compiled.parsed)
    return {kind: np.int32(count) for kind, count in counts.items()}


def _products(execution: Execution) -> Iterator[tuple[str, Any]]:
    """The matrix products of the program, and which product of the model each one is. The sizes of a case are all
    different."""
    case = execution.case
    V, F, T = int(case.values["vocab_size"]), int(case.values["d_ff"]), np.shape(case.values["token_ids"])[-1]
    for operation in stablehlo.operations(execution.compiled.parsed):
        if operation.name != "stablehlo.dot_general":
            continue
        left, right, result = (stablehlo.shape(value) for value in (*operation.operands, operation.results[0]))
        if len(result) <= stablehlo.batch_axes(operation):  # a product of two vectors, or several of them
            continue
        sizes = {*left, *right, *result}
        if V in sizes or F in sizes:
            yield "head" if V in sizes else "feed_forward", operation
        elif result.count(T) >= 2:
            yield "scores", operation
        else:
            yield "weighted_sum" if max(left.count(T), right.count(T)) >= 2 else "projections", operation


def _roundings_after(heads: Collection[Any], module: Any) -> int:
    """How often a program rounds to bfloat16 what depends on the results of these products. A function counts in each
    call."""
    functions = stablehlo.functions(module)

    def roundings(block: Any, known: set[Any]) -> int:
        """Counts in a block, and adds to `known` the values that depend on the products."""
        count = 0
        for view in block.operations:
            operation = view.operation
            after = operation in heads or any(value in known for value in operation.operands)
            inner = [block for region in operation.regions for block in region.blocks]
            if name := stablehlo.callee(operation):
                (called,) = functions[name].regions[0].blocks
                given = zip(called.arguments, operation.operands, strict=True)
                within = {argument for argument, value in given if value in known}
                count += roundings(called, within)
                after = any(value in within for value in stablehlo.end(called).operands)
            for part in inner:  # of a loop or a choice, which may read what is computed outside
                known |= set(part.arguments) if after else set()
                count += roundings(part, known)
                after |= any(value in known for value in stablehlo.end(part).operands)
            if after:
                known |= set(operation.results)
                count += operation.name == "stablehlo.convert" and stablehlo.dtypes(operation.results) == ["bf16"]
        return count

    return roundings(stablehlo.main_block(module), set())


PROBES = {"precision": precision, "slope": slope}
MEASURES = {"products_not_in_bfloat16": products_not_in_bfloat16, "in_bfloat16": in_bfloat16}
