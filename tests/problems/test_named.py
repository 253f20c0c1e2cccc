"""Wrong programs in styles of their own are told which idea went wrong, although no edit of the reference is their
code."""

import pytest

from grader.course import catalog
from tests.conftest import ROOT

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("style", "old", "new", "idea"),
    [
        ("p29_numpy", "jax.random.uniform(key, (num_tokens,))", "[jax.random.uniform(jax.random.key(0))] * num_tokens",
         "the same key for every token"),
        ("p29_sorted_logits", "int(jax.random.choice(jax.random.fold_in(key, len(out)), p.size, p=p))",
         "int(jax.random.categorical(jax.random.fold_in(key, len(out)), p))", "probabilities given to `categorical` as "
             "logits"),
        ("p29_sorted_logits", "int(jax.random.choice(jax.random.fold_in(key, len(out)), p.size, "
            "p=p))", "int(p.argmax())",
         "greedy choice at every temperature"),
        ("p29_sorted_logits", "(cumulative[:-1] < top_p) | (top_p == 1)", "cumulative[:-1] < "
            "top_p", "tokens lost at top_p 1"),
        ("p37_rotate_half", "inv_freq = 1.0 / base", "positions, inv_freq = positions.astype(x.dtype), 1.0 / base",
         "angles computed in bfloat16"),
        ("p37_rotate_half", "positions.astype(jnp.float32)", "jnp.minimum(positions, 4999).astype(jnp.float32)",
         "table of positions that ends"),
        ("p37_complex_numbers", "outer(positions,",
         "outer(jax.lax.dynamic_slice_in_dim(jnp.arange(999), positions[0], t),", "only the first position used"),
        ("p39_dot_product_attention", "q = rope(self.q_proj(x).reshape(1, -1, self.k), here, self.base)",
         "q = self.q_proj(x).reshape(1, -1, self.k)", "query at position 0 with a cache"),
        ("p40_tril_and_triu", "k=1 - self.window", "k=-self.window", "window one position too large"),
        ("p40_all_in_one_file", "- self.reach)", "- self.reach + 1)", "window one position too small"),
        ("p40_all_in_one_file", "(s <= s[:, None]) & (s >", "(s > -1) & (s >", "window without the causal condition"),
        ("p40_all_in_one_file", "(s > s[:, None] - self.reach)", "(s - s[:, None] < self.reach)",
         "window on the wrong axis, or missing"),
        ("p40_tril_and_triu", "i % full_every == full_every - 1", "i % full_every == 0", "first layer of each group "
            "full"),
        ("p41_inherited_block", 'get(f"{h}.{name}.weight"))', 'get(f"{h}.{name}.weight").T)', "kernels transposed"),
        ("p41_inherited_block", "for i in range(len(model.blocks)):", "for i in range(max(depths) + 1):",
         "layers counted in the file"),
        ("p41_one_table_of_names", 'if "lm_head.weight" in tensors and', "if False and", "untied head ignored"),
    ],
)  # fmt: skip
def test_another_style_with_a_misconception(grade, tmp_path, style, old, new, idea):
    (source,) = (path.read_text() for path in catalog.styles(catalog.find(style[1:3])) if path.stem == style)
    assert old in source
    for path in (ROOT / "solutions").glob("p*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "mine.py").write_text(source.replace(old, new))
    report = grade("problem", style[1:3], "mine.py", "--json").json
    assert report["misconception"]["name"] == idea
    assert "explains the first difference" not in report["misconception"]["says"]
