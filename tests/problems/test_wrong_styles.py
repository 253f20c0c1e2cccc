"""Wrong programs that are written otherwise than the reference get the name of their idea."""

import pytest

from tests.conftest import ROOT, Grade, misconception_name

STYLES = ROOT / "tests" / "problems" / "styles"


@pytest.mark.parametrize(
    ("style", "right", "wrong", "edit"),
    [
        pytest.param(
            "p52_gather_and_scan", 'side="right"', 'side="left"', "jnp.cumsum(distribution) >= uniform",
            marks=pytest.mark.thorough,
        ),
        ("p50_log_softmax_and_softplus", "is_answer[1:]", "is_answer[:-1]", "log_p * is_answer[:-1]"),
        pytest.param(
            "p52_loop_in_python", "np.flatnonzero(last)", "np.arange(len(last))",
            "return jnp.argmax(jnp.cumsum(distribution) > uniform)", marks=pytest.mark.thorough,
        ),
        pytest.param(
            "p51_tokens_in_one_row", "(mask.sum() + 1e-9)", "mask.sum()", "jnp.mean(losses, where=sampled)",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "p49_fori_loop", "z * keep + p.sum", "z + p.sum", "return top_t, one[1] + b_t * other[1]",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "p48_scan_for_places", "fits = place < C", "fits = place <= C", "jnp.where((place_N <= C)",
            marks=pytest.mark.thorough,
        ),
        (
            "p77_explicit_inverse", "np.outer(column, inverse[d, d + 1 :])", "0", "np.linalg.inv(H_DD)",
        ),
        pytest.param(
            "p72_rotate_half", "positions.astype(jnp.float32)", "positions.astype(x.dtype)",
            "(positions[:, None].astype(x.dtype) * frequencies)[:, None, :]", marks=pytest.mark.thorough,
        ),
        pytest.param(
            "p85_libraries", "+= max(rows, columns)", "+= max(rows, columns) + 1",
            "position += max(rows, columns) + 1", marks=pytest.mark.thorough,
        ),
        pytest.param(
            "p73_places_counted", "stop_gradient(score) + bias", "stop_gradient(score) - bias",
            "jax.lax.top_k(scores_TE - bias", marks=pytest.mark.thorough,
        ),
        pytest.param(
            "p82_arrays_and_recursion", "tokenizer.encode_ordinary(text)", "tokenizer.encode(text)",
            "token_ids = tokenizer.encode(text)", marks=pytest.mark.thorough,
        ),
    ],
)  # fmt: skip
def test_the_idea_is_named(grade: Grade, tmp_path, style: str, right: str, wrong: str, edit: str):
    source = (STYLES / f"{style}.py").read_text()
    assert right in source
    (tmp_path / "mine.py").write_text(source.replace(right, wrong))
    report = grade("problem", style[1:3], "mine.py", "--json").json
    assert report["misconception"]["name"] == misconception_name(style[1:3], edit)
