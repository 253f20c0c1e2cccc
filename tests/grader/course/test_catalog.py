"""The catalog: problems are found by whatever a person would type, and sources are followed through their imports."""

import time
from dataclasses import replace

import pytest

from commandline.errors import UsageError
from grader.course import catalog, imports
from grader.errors import CourseError
from tests.conftest import Grade

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "word",
    ["7", "07", "p07", "next_token_loss", "p07_next_token_loss", "p07_next_token_loss.py", "a/p07_next_token_loss.py"],
)
def test_a_problem_by_number_slug_name_or_path(word):
    assert catalog.find(word).name == "p07_next_token_loss"


@pytest.mark.parametrize(
    ("word", "suggestion"),
    [
        ("next_tokn_loss", "07 next_token_loss"),
        ("causal_atention", "02 causal_attention"),
        ("attention", "43 flash_attention"),
        ("0", "01"),
        ("p99", max(name.label for name in catalog.names())),
        ("zzz", "list"),
    ],
)
def test_an_unknown_problem_gets_the_nearest_names(word, suggestion):
    with pytest.raises(UsageError, match=suggestion):
        catalog.find(word)


def test_sources_are_followed_through_imports():
    sources = catalog.reference_sources(catalog.find("06"))
    assert list(sources) == ["p06_mini_gpt", "p05_gpt_block", "p03_causal_mha"]


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import p03_causal_mha", ["p03_causal_mha"]),
        ("from p03_causal_mha import CausalMHA", ["p03_causal_mha"]),
        ("import jax.numpy as jnp, p03_causal_mha", ["p03_causal_mha"]),
        ("import p03_causal_mha as mha, p05_gpt_block as block", ["p03_causal_mha", "p05_gpt_block"]),
        ("import jax, \\\n    p03_causal_mha", ["p03_causal_mha"]),
        ("from p03_causal_mha import (\n    CausalMHA,\n    attend,\n)", ["p03_causal_mha"]),
        ("from p03_causal_mha \\\n    import CausalMHA", ["p03_causal_mha"]),
        ("import jax; import p03_causal_mha", ["p03_causal_mha"]),
        ("try: import p03_causal_mha\nexcept ImportError: pass", ["p03_causal_mha"]),
        ("def f():\n    from p03_causal_mha import CausalMHA", ["p03_causal_mha"]),
        ("import p03_causal_mha\nimport p03_causal_mha", ["p03_causal_mha"]),
        ("# import p03_causal_mha", []),
        ("x = 1  # from p03_causal_mha import CausalMHA", []),
        ('"""\nimport p03_causal_mha\n"""', []),
        ("x = 'import p03_causal_mha'", []),
        ("from jax import p03_causal_mha", []),
        ("from . import p03_causal_mha", []),
        ("from .p03_causal_mha import CausalMHA", []),
        ("import p03_causal_mha.inner", []),
        ("import jax", []),
        ("", []),
    ],
)
def test_imported_modules(text, modules):
    assert imports.imported_modules(text) == modules


@pytest.mark.parametrize(
    "text",
    [
        "import jax.numpy as jnp, p03_causal_mha as mha\nx = = 1",
        "from p03_causal_mha import (CausalMHA,",
        "def f():\n    import p03_causal_mha\n  return",
        "import p03_causal_mha,",
        "import p03_causal_mha\nx = '\0'",
        "import p03_causal_mha\nx = " + "-" * 10_000 + "1",
        "import p03_causal_mha\nx = " + "(" * 10_000,
        "import p03_causal_mha\n" + "x = 1\n" * 100_000,
    ],
    ids=lambda text: text[:40],
)
def test_imported_modules_of_a_source_that_does_not_parse(text):
    """Its verdict is about the syntax error, so the module must not be missing."""
    assert imports.parse(text) is None
    assert imports.imported_modules(text) == ["p03_causal_mha"]


@pytest.mark.parametrize(
    "piece", ["x=[1,2,3]\n", "+1", "(", "-", "a.", "import p03_causal_mha," * 20 + "\n", "from \t", "\\\n"]
)
def test_hostile_sources_take_little_time(piece):
    start = time.monotonic()
    for size in (190_000, 1 << 20):
        imports.imported_modules("import p03_causal_mha\n" + piece * (size // len(piece)))
    assert time.monotonic() - start < 10


def test_an_import_after_a_comma_is_found_by_the_command(grade: Grade, tmp_path):
    """It used to be reported as not in the same folder."""
    problem = catalog.find("05")
    reference = catalog.solution_path(problem).read_text()
    assert "from p03_causal_mha import CausalMHA\n" in reference
    text = reference.replace(
        "from p03_causal_mha import CausalMHA\n",
        "import jax.numpy as jnp, p03_causal_mha\nCausalMHA = p03_causal_mha.CausalMHA\n",
    )
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "p03_causal_mha.py").write_text(catalog.solution_path(catalog.find("03")).read_text())
    report = grade("problem", "05", "mine.py", "--json").json
    assert report["verdict"] == "PASS", report["checks"]


def test_the_edit_of_a_misconception_must_occur_exactly_once(tmp_path):
    problem = replace(catalog.find("07"), folder=tmp_path / "problems" / "p07_next_token_loss")
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "p07_next_token_loss.py").write_text("a = 1\na = 1\n")
    (tmp_path / "solutions" / "p07_next_token_loss.toml").write_text(
        '[[misconception]]\nname = "n"\nsays = "s"\nfind = "a = 1"\nreplace = "a = 2"\n'
    )
    with pytest.raises(CourseError, match="must occur exactly once in the reference; it occurs 2 times"):
        catalog.misconceptions(problem)


def test_every_number_is_used_once():
    numbers = [problem.number for problem in catalog.problems()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('wrt=["x"', 'wrt=["y"', "names the argument 'y'; there is only 'x', 'scale', 'bias', 'epsilon'."),
        ('cases="faint"', 'cases="fain"', "names the cases 'fain'; there is only 'cases', 'faint', 'distant'."),
        ("output(NORM", 'output("norm"', "names the entry 'norm'; there is only 'layer_norm'."),
    ],
)
def test_a_definition_that_names_what_is_not_there_is_refused(old, new, said, tmp_path):
    text = (catalog.find("04").folder / "problem.py").read_text()
    assert old in text
    (tmp_path / "problem.py").write_text(text.replace(old, new, 1))
    with pytest.raises(CourseError) as raised:
        catalog.defined(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'problem.py'}: the check ")
    assert str(raised.value).endswith(said)
