"""Problem 85: pictures and text in one sequence: patches, a projector, positions on three axes, a mask and a loss."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import exact, output, output_and_gradient, parameters
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

PATCHIFY, PROJECTOR, LAYOUT, EMBEDDINGS = "patchify", "Projector", "layout", "mixed_embeddings"
ROTATE, MASK, LOSS = "rotate", "picture_mask", "text_loss"
AXES = ("time", "row", "column")
TEXT = 0  # the number of the picture of a token that is text
QWEN2_5, QWEN3 = "Qwen2.5-VL", "Qwen3-VL"
SECTIONS = {QWEN2_5: (16, 24, 24), QWEN3: (24, 20, 20)}  # pairs of time, rows and columns, of 64


def numbered(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A picture in which each number is its own place, so a patch shows which numbers it has."""
    import numpy as np

    side = sizes["patch"] * sizes["merge"]
    Y, X, C = side * sizes["rows"], side * sizes["columns"], sizes["C"]
    return {
        "picture": np.arange(Y * X * C, dtype="float32").reshape(Y, X, C),
        "patch_size": sizes["patch"],
        "merge": sizes["merge"],
    }


def of_the_picture(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a report shows in place of numbers that count."""
    Y, X, C = values["picture"].shape
    return {
        "picture": f"{Y} x {X} pixels, {C} channels", "patch_size": values["patch_size"], "merge": values["merge"],
    }  # fmt: skip


def pixel(case: Case, number: str) -> str:
    """The pixel and the channel that have this number."""
    Y, X, C = case.values["picture"].shape
    value = float(number.replace(",", ""))
    if not value.is_integer() or not 0 <= value < Y * X * C:
        return f"{number}, which is not in the picture"
    place, channel = divmod(int(value), C)
    return f"channel {channel} of the pixel in row {place // X}, column {place % X}"


def of_a_patch(case: Case, wrong: Difference) -> str:
    patch, place = wrong.index
    return (
        f"number {place} of patch {patch} is {pixel(case, wrong.got)}; expected: {pixel(case, wrong.expected)} "
        "(all count from 0)"
    )


def patches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Patches of random numbers, whose means and deviations differ. Some are nearly of one color."""
    import numpy as np

    M, F = sizes["merge"] ** 2 * sizes["Q"], sizes["F"]
    contrast = rng.uniform(0.5, 2, (M, 1)) * np.where(np.arange(M) % 3 == 1, 0.03, 1)[:, None]
    return {
        "patch_width": F,
        "d_model": sizes["D"],
        "merge": sizes["merge"],
        "patches": (contrast * (rng.standard_normal((M, F)) + rng.uniform(-1, 1, (M, 1)))).astype("float32"),
    }


def row_of(parts: list[int | tuple[int, int]], placeholder: int, vocabulary: int, rng: Any) -> dict[str, Any]:
    """A sequence of texts, each a number of tokens, and pictures, each a grid of rows and columns."""
    import numpy as np

    grids = [part for part in parts if isinstance(part, tuple)]
    tokens = [
        [placeholder] * (part[0] * part[1]) if isinstance(part, tuple) else rng.integers(0, vocabulary, part)
        for part in parts
    ]
    return {
        "token_ids": np.concatenate(tokens).astype("int32"),
        "placeholder": placeholder,
        "grids": np.array(grids, "int32").reshape(-1, 2),
    }


def mixed(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A wide picture, a tall one, and text around them."""
    wide, tall = (2, 2 + sizes["more"]), (2 + sizes["more"], 2)
    first, second = (wide, tall) if sizes["wide"] else (tall, wide)
    return row_of([sizes["before"], first, 2, second, sizes["after"]], 40, 40, rng)


def side_by_side(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Pictures without a text between them, of which one has one token. The sequence begins and ends with one."""
    return row_of([(3, 2), (2, 4), 3, (1, 1), (1, 3)], 7, 7, rng)


def only_text(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return row_of([sizes["T"]], 40, 40, rng)


def of_life(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Photographs of several thousand tokens, with questions."""
    return row_of([25, (64, 48), 300, (27, 80), (16, 16), 40], 151_655, 151_643, rng)


def numbers_of(grids: Any, token_ids: Any, placeholder: int) -> Any:
    """The number of the picture of each token, (T,)."""
    import numpy as np

    found = np.zeros(len(token_ids), "int32")
    found[token_ids == placeholder] = np.repeat(np.arange(len(grids)) + 1, grids.prod(axis=1))
    return found


def embedded(sizes: Mapping[str, int], rng: Any, beyond: bool = False, text: bool = False) -> dict[str, Any]:
    """A table of V rows, and features for the places of the pictures. A placeholder may have no row in the table."""
    V, D = sizes["V"], sizes["D"]
    parts: list[Any] = [8] if text else [2, (2, 3), (1, 2), 3]
    made = row_of(parts, V + 3 if beyond else V - 1, V - 1, rng)
    pictures = numbers_of(made["grids"], made["token_ids"], made["placeholder"])
    return {
        "table": rng.standard_normal((V, D)).astype("float32"),
        "token_ids": made["token_ids"],
        "pictures": pictures,
        "features": rng.standard_normal((int((pictures > 0).sum()), D)).astype("float32"),
    }


def vectors(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Vectors of H heads, whose pairs read the axes in no order, at positions that differ on each."""
    T, H, P = sizes["T"], sizes["H"], sizes["pairs"]
    axes = rng.permutation([0, 1, 2, 2, 1, 0, 1][:P])
    return {
        "x": rng.standard_normal((T, H, 2 * P)).astype("float32"),
        "positions": rng.integers(0, 9, (3, T)).astype("int32"),
        "axes": axes.astype("int32"),
        "base": float(rng.integers(20, 90)),
    }


def axes_of(model: str) -> Any:
    """The axis of each of the 64 pairs of a head: in sections, or one after the other as long as rows and columns have
    any."""
    import numpy as np

    time, rows, columns = SECTIONS[model]
    if model == QWEN2_5:
        return np.repeat([0, 1, 2], [time, rows, columns])
    axes = np.zeros(64, int)
    axes[1 : 3 * rows : 3], axes[2 : 3 * columns : 3] = 1, 2
    return axes


def of_a_model(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A head of Qwen2.5-VL or Qwen3-VL."""
    return {
        "x": rng.standard_normal((5, 1, 128)).astype("float32"),
        "positions": rng.integers(0, 40, (3, 5)).astype("int32"),
        "axes": axes_of((QWEN2_5, QWEN3)[sizes["model"]]).astype("int32"),
        "base": 1_000_000.0,
    }


def seen(sizes: Mapping[str, int], rng: Any, text: bool = False) -> dict[str, Any]:
    """The pictures of a sequence: two of them stand side by side."""
    import numpy as np

    runs = [2, 3, 1, 4, 2, 2] if sizes["wide"] else [1, 4, 2, 3, 2, 2]
    return {"pictures": np.repeat([0] * 6 if text else [0, 1, 0, 2, 3, 0], runs).astype("int32")}


def predicted(sizes: Mapping[str, int], rng: Any, nothing: bool = False, scale: float = 1.0) -> dict[str, Any]:
    """Logits for a sequence with two pictures, or with one at its end."""
    V = sizes["V"]
    made = row_of([1, (5, 2)] if nothing else [2, (1, 3), 2, (2, 1), 2], V - 1, V - 1, rng)
    return {
        "logits": (scale * rng.standard_normal((len(made["token_ids"]), V))).astype("float32"),
        "token_ids": made["token_ids"],
        "pictures": numbers_of(made["grids"], made["token_ids"], made["placeholder"]),
    }


def reordered(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A layer of attention over a sequence with two pictures, and an order in which the tokens of each are mixed."""
    import numpy as np

    rows, columns, D = sizes["rows"], sizes["columns"], 6
    runs = [2, rows * columns, 1, columns * rows, 3]
    starts = np.cumsum([0, *runs])
    order = np.arange(starts[-1])
    for start, length in ((starts[1], runs[1]), (starts[3], runs[3])):
        order[start : start + length] = start + np.roll(rng.permutation(length), 1)
    return {
        "rows": rows,
        "columns": columns,
        "table": rng.standard_normal((9, D)).astype("float32"),
        "features": rng.standard_normal((2 * rows * columns, D)).astype("float32"),
        "kernels": rng.standard_normal((3, D, D)).astype("float32"),
        "order": order.astype("int32"),
        "base": 30.0,
    }


def of_the_layout(case: Case, wrong: Difference) -> str:
    """What is wrong with a token: its position on an axis, or its picture."""
    token = wrong.index[-1]
    kind = "a placeholder" if case.values["token_ids"][token] == case.values["placeholder"] else "text"
    if wrong.path.endswith("pictures"):
        got, expected = (
            "no picture" if each == str(TEXT) else f"picture {each}" for each in (wrong.got, wrong.expected)
        )
        return f"token {token} ({kind}) belongs to {got}, expected {expected}"
    return f"the {AXES[wrong.index[0]]} of token {token} ({kind}) is {wrong.got}, expected {wrong.expected}"


def of_the_mask(case: Case, wrong: Difference) -> str:
    """Whether a query sees a key."""
    query, key = wrong.index
    got, expected = ("sees" if each == "True" else "does not see" for each in (wrong.got, wrong.expected))
    of = [
        f"token {place} ({f'picture {number}' if (number := case.values['pictures'][place]) else 'text'})"
        for place in (query, key)
    ]
    return f"{of[0]} {got} {of[1]}; expected: it {expected} it"


def of_the_learning(case: Case, wrong: Difference) -> str:
    """Whether the loss depends on the logits of a token."""
    (token,) = wrong.index
    number = case.values["pictures"][token + 1 : token + 2]
    then = "nothing follows" if not len(number) else "text follows" if number[0] == TEXT else "a placeholder follows"
    got, expected = ("count" if int(each) else "do not count" for each in (wrong.got, wrong.expected))
    return f"the logits of token {token} {got}; expected: they {expected}, because {then}"


def of_the_order(case: Case, wrong: Difference) -> str:
    """A token whose output depends on the order in which the tokens of a picture come."""
    (token,) = wrong.index
    return (
        f"the output of token {token} changes when the tokens of each picture come in another order, with their "
        "positions; expected: it stays the same"
    )


# Correct programs differ by 2e-6 of the size of a leaf in a gradient through the norm and GELU.
THROUGH_A_NORM = Tolerance(rtol=5e-5, atol=5e-5)
# An angle of 40 radians is rounded to 4e-6.
TURNED = Tolerance(rtol=1e-4, atol=1e-4)
SHAPE = {"rows": (2, 1, 3), "columns": (3, 2), "C": (3,), "patch": (2, 3), "merge": (2,)}
ROW = {"before": (2, 1), "after": (2, 3), "more": (1, 2), "wide": (1, 0)}
V = 11

PROBLEM = Problem(
    title="Pictures",
    minutes=150,
    builds_on=(7, 37, 54),
    bill="projected patches",
    entries=(
        Entry(PATCHIFY, ("picture", "patch_size", "merge")),
        Entry(PROJECTOR, ("patches",), construct=("patch_width", "d_model", "merge")),
        Entry(LAYOUT, ("token_ids", "placeholder", "grids"), returns=("positions", "pictures")),
        Entry(EMBEDDINGS, ("table", "token_ids", "pictures", "features")),
        Entry(ROTATE, ("x", "positions", "axes", "base")),
        Entry(MASK, ("pictures",)),
        Entry(LOSS, ("logits", "token_ids", "pictures")),
    ),
    cases={
        "cases": Cases(numbered, SHAPE, draws=3, show=of_the_picture),
        "not merged": Cases(numbered, {**SHAPE, "merge": (1,), "C": (1, 3)}, draws=2, show=of_the_picture),
        "one patch": Cases(
            numbered, {"rows": (1,), "columns": (1,), "C": (1,), "patch": (4,), "merge": (1,)}, draws=1,
            show=of_the_picture, covers=("one",),
        ),
        "a photograph": Cases(
            numbered, {"rows": (5,), "columns": (7,), "C": (3,), "patch": (16,), "merge": (2,)}, draws=1,
            show=of_the_picture,
        ),
        "patches": Cases(patches, {"Q": (3,), "F": (5,), "D": (7,), "merge": (2,)}, draws=1),
        "single patches": Cases(patches, {"Q": (4,), "F": (3,), "D": (5,), "merge": (1,)}, draws=1),
        "rows": Cases(mixed, ROW, draws=4),
        "side by side": Cases(side_by_side, {}, draws=1),
        "text": Cases(only_text, {"T": (6, 1)}, draws=2),
        "long": Cases(of_life, {}, draws=1),
        "embedded": Cases(embedded, {"V": (V,), "D": (4,)}, draws=1),
        "beyond": Cases(partial(embedded, beyond=True), {"V": (V,), "D": (4,)}, draws=1),
        "no picture": Cases(partial(embedded, text=True), {"V": (V,), "D": (4,)}, draws=1),
        "vectors": Cases(vectors, {"T": (5,), "H": (3,), "pairs": (7,)}, draws=1),
        "models": Cases(of_a_model, {"model": (0, 1)}, draws=2),
        "masks": Cases(seen, {"wide": (1, 0)}, draws=2),
        "mask of text": Cases(partial(seen, text=True), {"wide": (1,)}, draws=1),
        "logits": Cases(predicted, {"V": (7,)}, draws=1, covers=("coprime",)),
        "far apart": Cases(partial(predicted, scale=300.0), {"V": (7,)}, draws=1),
        "nothing to predict": Cases(partial(predicted, nothing=True), {"V": (7,)}, draws=1),
        "vocabulary": Cases(predicted, {"V": (50_257,)}, draws=1, covers=("vocabulary",)),
        "orders": Cases(reordered, {"rows": (2,), "columns": (3,)}, draws=1),
    },
    checks=(
        exact("patches", 2, "cutting", "patches", in_words=of_a_patch, calls=(PATCHIFY,)),
        exact("patches that stay apart", 1, "cutting", "patches", cases="not merged", in_words=of_a_patch,
              calls=(PATCHIFY,)),
        exact("a picture of one patch", 1, "cutting", "patches", cases="one patch", in_words=of_a_patch,
              calls=(PATCHIFY,)),
        exact("patches of a photograph", 1, "cutting", "patches", cases="a photograph", in_words=of_a_patch,
              calls=(PATCHIFY,)),
        parameters(PROJECTOR, points=1, cases="patches"),
        *output_and_gradient(
            PROJECTOR, wrt="parameters", points=(1, 1), names=("projected patches", "gradient of the projector"),
            cases="patches", tolerance=THROUGH_A_NORM,
        ),
        output(PROJECTOR, points=1, name="projected without merging", cases="single patches"),
        exact("positions", 3, "laying_out", "layout.positions", cases="rows", in_words=of_the_layout, calls=(LAYOUT,)),
        exact("numbers of pictures", 1, "laying_out", "layout.pictures", cases="rows", in_words=of_the_layout,
              calls=(LAYOUT,)),
        exact("pictures side by side", 1, "laying_out", "layout", cases="side by side", in_words=of_the_layout,
              calls=(LAYOUT,)),
        exact("text alone", 1, "laying_out", "layout", cases="text", in_words=of_the_layout, calls=(LAYOUT,)),
        exact("thousands of tokens", 1, "laying_out", "layout", cases="long", in_words=of_the_layout, calls=(LAYOUT,)),
        *output_and_gradient(
            EMBEDDINGS, wrt=["table", "features"], points=(1, 1), names=("embeddings", "gradient of the embeddings"),
            cases="embedded",
        ),
        Check("a placeholder beyond the table", 1, "values", {"entry": EMBEDDINGS, "wrt": ["table", "features"]}, "",
              "beyond"),
        output(EMBEDDINGS, points=1, name="no picture", cases="no picture"),
        *output_and_gradient(
            ROTATE, wrt=["x"], points=(2, 1), names=("rotated vectors", "gradient of the rotation"), cases="vectors"
        ),
        output(ROTATE, points=1, name="heads of two models", cases="models", tolerance=TURNED),
        exact("mask", 2, "values", "output", options={"entry": MASK}, cases="masks", in_words=of_the_mask),
        exact("mask of text", 1, "values", "output", options={"entry": MASK}, cases="mask of text",
              in_words=of_the_mask),
        exact("no loss on patches", 2, "learning", "learns", cases="logits", in_words=of_the_learning, calls=(LOSS,)),
        Check("loss", 1, "learning", {}, "loss", "logits", calls=(LOSS,)),
        Check("gradient of the loss", 1, "learning", {}, "gradient", "logits", calls=(LOSS,)),
        output(LOSS, points=1, name="logits far apart", cases="far apart"),
        Check("nothing to predict", 1, "learning", {}, "", "nothing to predict", calls=(LOSS,)),
        output(LOSS, points=1, name="a vocabulary of 50,257", cases="vocabulary"),
        exact("patches in another order", 2, "ordering", "changed", cases="orders", in_words=of_the_order,
              calls=(LAYOUT, EMBEDDINGS, ROTATE, MASK)),
        Check("a layer over text and pictures", 1, "ordering", {}, "output", "orders",
              calls=(LAYOUT, EMBEDDINGS, ROTATE, MASK)),
    ),
)  # fmt: skip
