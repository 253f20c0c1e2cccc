"""Problem 09: AdamW by hand."""

from collections.abc import Mapping
from typing import Any

from grader.checks import compiled_once, exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem

STEPS, LONG = 5, 3_000  # float16 cannot count beyond 2,048, bfloat16 beyond 256
OPTIMIZER = ("adamw",)
PATHS = {"kernel": "blocks.0.kernel", "bias": "blocks.0.bias", "temperature": "temperature"}


def gradients(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Gradients of five steps for a kernel, a bias and a scalar. Some are so small that epsilon matters."""
    D, F, steps = sizes["D"], sizes["F"], sizes.get("steps", STEPS)
    row_scales = 10.0 ** rng.integers(-3, 2, (steps, D, 1))
    return {
        "kernel": (row_scales * rng.standard_normal((steps, D, F))).astype("float32"),
        "bias": rng.standard_normal((steps, F)).astype("float32"),
        "temperature": rng.standard_normal(steps).astype("float32"),
        "learning_rate": round(rng.uniform(0.05, 0.2), 3),
        "b1": round(rng.uniform(0.7, 0.9), 3),
        "b2": round(rng.uniform(0.92, 0.97), 3),
        "epsilon": round(rng.uniform(0.008, 0.02), 3),
        "weight_decay": round(rng.uniform(0.2, 0.4), 3),
    }


def masked(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same, and one leaf of three that does not decay."""
    return {**gradients(sizes, rng), "without_decay": [*PATHS.values()][sizes["leaf"]]}


def long_run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Gradients of many steps, with the settings of a real run."""
    values = gradients({**sizes, "steps": LONG}, rng)
    return {**values, "learning_rate": 0.01, "b1": 0.9, "b2": 0.999, "epsilon": 1e-8, "weight_decay": 0.1}


def ranks(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Parameters with different numbers of axes. One of them has a single row, one has GPT-2's vocabulary."""
    D = sizes["D"]
    shapes = {
        "embedding": (50_257, D), "query": (D, 2, 7), "row": (1, D), "bias": (D,), "scale": (1,), "temperature": (),
    }  # fmt: skip
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


def shapes(values: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of the parameters, whose numbers do not matter."""
    return {"shapes of the parameters": ", ".join(f"{name} {list(value.shape)}" for name, value in values.items())}


def of_leaf(case: Case, wrong: Difference) -> str:
    name = wrong.path.removeprefix("decays.")
    shape = list(case.values[name].shape)
    said = {"0": "False", "1": "True"}
    return (
        f"for `{name}` of shape {shape}, the mask is {said.get(wrong.got, wrong.got)}, expected {said[wrong.expected]}"
    )


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of the gradients, which are many random numbers."""
    shapes = ", ".join(f"{path} {list(values[key].shape[1:])}" for key, path in PATHS.items())
    others = {name: value for name, value in values.items() if name not in PATHS}
    return {f"gradients of steps 0 to {len(values['bias']) - 1}": shapes, **others}


def of_long_run(case: Case, wrong: Difference) -> str:
    leaf = wrong.path.removeprefix("after.")
    where = f"{leaf}{list(wrong.index)}" if wrong.index else leaf
    return f"after {LONG:,} steps, `{where}` is {wrong.got}, expected {wrong.expected}"


def of_step(case: Case, wrong: Difference) -> str:
    _, step, leaf = wrong.path.split(".", 2)
    where = f"{leaf}{list(wrong.index)}" if wrong.index else leaf
    return f"the update of `{where}` at step {step} is {wrong.got}, expected {wrong.expected}"


PROBLEM = Problem(
    title="AdamW",
    minutes=80,
    builds_on=(8,),
    # Types, and parts of a transformation that know nothing of Adam's moments.
    forbids=("optax", "optax.adamw", "optax.adam", "optax.scale_by_adam"),
    allows=tuple(
        f"optax.{name}" for name in """
        EmptyState GradientTransformation GradientTransformationExtraArgs OptState Params ScalarOrSchedule
        ScaleByAdamState Schedule TransformInitFn TransformUpdateExtraArgsFn TransformUpdateFn Updates
        add_decayed_weights apply_updates chain global_norm identity safe_increment safe_int32_increment scale
        scale_by_learning_rate scale_by_schedule stateless MaskedNode bias_correction numerics
        stateless_with_tree_map tree tree_utils update_moment update_moment_per_elem_norm with_extra_args_support
        """.split()
    ),
    entries=(
        Entry("adamw", ("learning_rate", "b1", "b2", "epsilon", "weight_decay", "mask")),
        Entry("decayed", ("parameters",)),
    ),
    cases={
        "cases": Cases(gradients, {"D": (3, 4), "F": (2, 5)}, draws=2, show=shown),
        "masks": Cases(masked, {"D": (3, 4), "F": (2, 5), "leaf": (0, 1, 2)}, draws=3, show=shown),
        "long": Cases(long_run, {"D": (3, 4), "F": (2, 5)}, draws=1, show=shown, covers=("axes",)),
        "ranks": Cases(ranks, {"D": (3, 5)}, draws=1, show=shapes, covers=("vocabulary", "coprime", "axes", "one")),
    },
    checks=(
        Check("first update", 1, "updates", leaves="update.0", in_words=of_step, calls=OPTIMIZER),
        Check("five updates", 2, "updates", leaves="update", in_words=of_step, calls=OPTIMIZER),
        Check("five updates, compiled", 2, "updates", leaves="compiled", in_words=of_step, calls=OPTIMIZER),
        Check("many updates", 1, "long_run", leaves="after", cases="long", in_words=of_long_run, calls=OPTIMIZER),
        Check("decay of some leaves", 1, "updates", leaves="update", cases="masks", in_words=of_step, calls=OPTIMIZER),
        exact("which leaves decay", 1, "masks", "decays", cases="ranks", in_words=of_leaf, calls=("decayed",)),
        Check("inside nnx.Optimizer", 1, "optimizing", leaves="parameters", calls=OPTIMIZER),
        compiled_once(
            1, "optimizing", calls=OPTIMIZER,
            advice="jit compiled the update more than once. Return a state with the structure, shapes and dtypes of "
                "the old one.",
        ),
    ),
)  # fmt: skip
