"""Which misconception a failure is attributed to, if any. `grade verify` checks all of them."""

from tests.conftest import ROOT, Grade, misconception_name

SOLUTION = ROOT / "solutions" / "p07_next_token_loss.py"


def test_a_misconception_is_identified_by_its_exception(grade: Grade, tmp_path):
    source = (ROOT / "solutions" / "p06_mini_gpt.py").read_text()
    for name in ("p03_causal_mha", "p05_gpt_block"):
        (tmp_path / f"{name}.py").write_text((ROOT / "solutions" / f"{name}.py").read_text())
    (tmp_path / "mine.py").write_text(source.replace("nnx.List([GPTBlock", "list([GPTBlock"))
    report = grade("problem", "06", "mine.py", "--json").json
    assert report["verdict"] == "ERROR"
    assert report["misconception"]["name"] == misconception_name("06", "self.blocks = [GPTBlock")


def test_an_error_that_is_not_a_misconception(grade: Grade, tmp_path):
    (tmp_path / "odd.py").write_text(
        SOLUTION.read_text().replace("jnp.sum(losses * counts)", "0.9 * jnp.sum(losses * counts)")
    )
    report = grade("problem", "07", "odd.py", "--json").json
    assert (report["verdict"], report["misconception"]) == ("FAIL", None)
