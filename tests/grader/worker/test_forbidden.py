"""What a problem forbids, reached under other names; and the same calls where they are allowed."""

from pathlib import Path

import pytest

from grader.course import catalog
from tests.conftest import Grade

NAME = "p09_adamw"
REFERENCE = catalog.solution_text(catalog.load(NAME))
ENTRY = "def adamw(learning_rate, b1, b2, epsilon, weight_decay):"
CALL = "(learning_rate, b1, b2, epsilon, weight_decay=weight_decay)"
HELPER = """import optax

def helper(*args, **kwargs):
    return optax.adamw(*args, **kwargs)
"""
LAYER_NORM = """
from flax import nnx

def layer_norm(x, scale, bias, epsilon):
    norm = nnx.LayerNorm(x.shape[-1], epsilon=epsilon, rngs=nnx.Rngs(0))
    return norm(x) * scale + bias
"""


@pytest.mark.parametrize(
    "how",
    [
        f"import optax\n{ENTRY}\n    return optax.adamw{CALL}",
        f"from optax import adamw as borrowed\n{ENTRY}\n    return borrowed{CALL}",
        f"import optax\n{ENTRY}\n    return getattr(optax, 'ad' + 'amw'){CALL}",
        f"from optax._src import alias\n{ENTRY}\n    return alias.adamw{CALL}",
        f"from p08_train_step import helper\n{ENTRY}\n    return helper{CALL}",
    ],
)
def test_a_forbidden_function_is_found_by_any_name(grade: Grade, tmp_path: Path, how: str):
    (tmp_path / "p08_train_step.py").write_text(
        "import optax\n\ndef helper(*args, **kwargs):\n    return optax.adamw(*args, **kwargs)\n"
    )
    (tmp_path / f"{NAME}.py").write_text(how)
    run = grade("problem", "09", f"{NAME}.py", "--json", cwd=tmp_path)
    assert run.code == 1
    assert run.json["score"] == 0
    file = "p08_train_step.py, line 4" if "helper" in how else f"{NAME}.py, line 3"
    assert f"it uses `optax.adamw`, which this problem asks you to write ({file})" in run.json["checks"][0]["message"]


def test_a_forbidden_class_is_found(grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text(LAYER_NORM)
    run = grade("problem", "04", "mine.py", cwd=tmp_path)
    assert run.code == 1
    assert "it uses `flax.nnx.LayerNorm`, which this problem asks you to write (mine.py, line 5)" in " ".join(
        run.out.split()
    )


def test_a_comparison_that_does_not_run_with_the_entry_is_allowed(grade: Grade, tmp_path: Path):
    (tmp_path / "mine.py").write_text(f"{REFERENCE}\n\nEXPECTED = optax.adamw(1e-3)\n")
    assert grade("problem", "09", "mine.py", cwd=tmp_path).code == 0
