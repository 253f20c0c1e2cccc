"""The origins of the operations of a compiled program."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from harness.run.hlo_sources import operations


@jax.named_scope("attention")
def mixed(x, w):
    return jnp.einsum("ab,bc->ac", x, w)


def loss(w, x):
    return jnp.sum(jnp.sin(mixed(x, w)))


@pytest.mark.usefixtures("traced_lines")
def test_operations_have_their_scope_their_line_and_their_direction() -> None:
    x = jnp.ones((64, 32))
    w = jnp.ones((32, 16))
    text = jax.jit(jax.value_and_grad(loss)).lower(w, x).compile().as_text()
    found = set(operations(text, (Path(__file__).parent,)).values())
    line = f"test_hlo_sources.py:{mixed.__wrapped__.__code__.co_firstlineno + 2}"
    products = {(each.backward, each.line) for each in found if each.primitive == "ab,bc->ac"}
    products |= {(each.backward, each.line) for each in found if each.primitive == "dot_general"}
    assert {(False, line), (True, line)} <= products
    assert {each.part for each in found if each.primitive in ("ab,bc->ac", "dot_general")} == {"attention"}
    assert {each.part for each in found if each.primitive in ("sin", "cos")} == {"rest"}


@pytest.mark.usefixtures("traced_lines")
def test_a_file_of_a_piece_names_the_part(tmp_path: Path) -> None:
    file = tmp_path / "p05_gpt_block.py"
    source = "import jax.numpy as jnp\nclass GPTBlock:\n    def __call__(self, x):\n        return jnp.sin(x) @ x.T\n"
    file.write_text(source)
    names: dict = {}
    exec(compile(source, str(file), "exec"), names)
    text = jax.jit(lambda x: names["GPTBlock"]()(x)).lower(jnp.ones((64, 32))).compile().as_text()
    found = {each for each in operations(text, (tmp_path,)).values() if each.line}
    assert {(each.part, each.line) for each in found} == {("GPTBlock", "p05_gpt_block.py:4")}
