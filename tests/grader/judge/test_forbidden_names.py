"""What a problem asks to write: the text of a submission must call nothing that does it, and must not hide what it
calls."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from grader.course import catalog, imports
from grader.judge import forbidden_names
from grader.judge.submission import Submission
from tests.conftest import ROOT, Grade

NORM = "def layer_norm(x, scale, bias, epsilon):\n    "
MODULE = "nnx.LayerNorm(4, rngs=nnx.Rngs(0))(x)"
ADAM = "def adamw(*args):\n    "
ROWS = """from flax import nnx
class Rows(nnx.Module):
    def __init__(self, rows):
        self.kernel = nnx.Param(rows)
    def __call__(self, unused):
        return self.kernel[...]
class RMSNorm(nnx.Module):
    def __init__(self, d_model, epsilon, rngs):
        pass
    def __call__(self, x):
        return nnx.{}(0)
"""
ASKING = [catalog.load(name) for name in catalog.names() if catalog.load(name).forbids]


def refused(number: str, text: str, others: Mapping[str, str] | None = None, check: int = 0) -> str:
    """The sentence of a refusal; empty if there is none."""
    problem = catalog.find(number)
    submission = Submission("mine.py", {problem.name: text, **(others or {})})
    failure = forbidden_names.refusal(problem, submission, problem.checks[check])
    return failure.sentence() if failure else ""


@pytest.mark.fast
@pytest.mark.parametrize("problem", ASKING, ids=lambda problem: problem.name)
def test_references_and_other_styles_are_allowed(problem):
    paths = [ROOT / "solutions" / f"{problem.name}.py", *catalog.styles(problem)]
    assert len(paths) > 2
    for path in paths:
        sources = imports.with_imports(problem.name, path.read_text(), catalog.references(problem))
        for check in problem.checks:
            assert forbidden_names.refusal(problem, Submission(path.name, sources), check) is None, path.name


@pytest.mark.fast
@pytest.mark.parametrize(
    ("number", "text", "name"),
    [
        ("04", f"from flax import nnx\n{NORM}return {MODULE}", "flax.nnx.LayerNorm"),
        ("04", f"from flax.nnx import LayerNorm as L\n{NORM}return L(4)(x)", "flax.nnx.LayerNorm"),
        ("04", f"import flax\nn = flax.nnx\n{NORM}return n.LayerNorm(4)(x)", "flax.nnx.LayerNorm"),
        ("04", f"from flax import nnx\nbase = nnx.LayerNorm\n{NORM}return base(4)(x)", "flax.nnx.LayerNorm"),
        ("04", f"from flax import nnx\nclass Mine(nnx.LayerNorm):\n    pass\n{NORM}return "
            "Mine(4)(x)", "flax.nnx.LayerNorm"),
        ("04", f"from flax import nnx\n{NORM}return nnx.GroupNorm(4, num_groups=1)(x)", "flax.nnx.GroupNorm"),
        ("04", f"from flax import nnx\n{NORM}return nnx.WeightNorm(x, rngs=nnx.Rngs(0))(0)", "flax.nnx.WeightNorm"),
        ("04", f"from flax import nnx\n{NORM}return nnx.SpectralNorm(x, rngs=nnx.Rngs(0))(0)", "flax.nnx.SpectralNorm"),
        ("04", f"import flax.linen as nn\n{NORM}return nn.RMSNorm()(x)", "flax.linen.RMSNorm"),
        ("04", f"import jax\n{NORM}return jax.nn.standardize(x)", "jax.nn.standardize"),
        ("04", f"from jax import nn\n{NORM}return getattr(nn, 'standardize')(x)", "jax.nn.standardize"),
        ("04", f"from flax import nnx\nT = dict()\nT['n'] = nnx.LayerNorm\n{NORM}return "
            "T['n'](4)(x)", "flax.nnx.LayerNorm"),
        ("09", f"import optax\n{ADAM}return optax.adamw(*args)", "optax.adamw"),
        ("09", f"import optax\n{ADAM}return optax.lamb(*args)", "optax.lamb"),
        ("09", f"import optax\n{ADAM}return optax.contrib.ademamix(*args)", "optax.contrib.ademamix"),
        ("09", f"from optax import transforms\n{ADAM}return "
            "transforms.scale_by_adam()", "optax.transforms.scale_by_adam"),
        ("10", "import optax\ndef warmup_cosine(*a):\n    return optax.join_schedules(a, [])", "optax.join_schedules"),
        ("11", "import optax\ndef clip_by_global_norm(g, m):\n    return optax.projections.projection_l2_ball(g, m)",
         "optax.projections.projection_l2_ball"),
        ("13", "import optax\ndef finite_guard(inner):\n    return optax.apply_if_finite(inner, "
            "9)", "optax.apply_if_finite"),
        ("36", "from flax import nnx\nclass Dropout(nnx.Dropout):\n    pass", "flax.nnx.Dropout"),
        ("38", "from flax import nnx\nclass RMSNorm(nnx.Module):\n    def __call__(self, x):\n        return "
            "nnx.RMSNorm(4)(x)",
         "flax.nnx.RMSNorm"),
        ("38", ROWS.format("WeightNorm(Rows(x.T), use_scale=False, feature_axes=-1, "
            "rngs=nnx.Rngs(0))"), "flax.nnx.WeightNorm"),
        ("38", ROWS.format("SpectralNorm(Rows(x[:1]), rngs=nnx.Rngs(0))"), "flax.nnx.SpectralNorm"),
    ],
)  # fmt: skip
def test_what_does_the_work_is_refused_by_its_name(number: str, text: str, name: str):
    assert f"it uses `{name}`, which " in refused(number, text)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"import sys\nfrom flax import nnx\n{NORM}return sys.modules['flax.nnx'].LayerNorm(4)(x)", "sys.modules"),
        (f"import importlib\n{NORM}return "
            "importlib.import_module('flax.nnx').LayerNorm(4)(x)", "importlib.import_module"),
        (f"{NORM}return __import__('flax.nnx').nnx.LayerNorm(4)(x)", "__import__"),
        (f"{NORM}return eval('x')", "eval"),
        (f"exec(compile('def layer_norm(): pass', 'elsewhere.py', 'exec'))\n{NORM}return x", "exec"),
        (f"from flax import nnx\n{NORM}return globals()['nnx'].LayerNorm(4)(x)", "globals"),
        (f"from flax import nnx\n{NORM}return vars(nnx)['Layer' + 'Norm'](4)(x)", "vars"),
        (f"from flax import nnx\n{NORM}return getattr(nnx, 'Layer' + 'Norm')(4)(x)", "getattr"),
        (f"from functools import reduce\n{NORM}return reduce(getattr, ['a', 'b'], x)", "getattr"),
        (f"from flax import nnx\ndef pick(m):\n    return m\n{NORM}return pick(nnx)", "flax.nnx"),
        (f"from flax import nnx\nclass Box:\n    n = [nnx]\n{NORM}return Box.n[0].LayerNorm(4)(x)", "flax.nnx"),
        (f"from flax import nnx\n{NORM}return nnx.Linear.__init__.__globals__['LayerNorm'](x)", "__globals__"),
        (f"from flax import nnx\n{NORM}return nnx.Module.__subclasses__()[0](x)", "__subclasses__"),
        (f"import gc\n{NORM}return gc.get_objects()[0](x)", "gc.get_objects"),
        (f"import pickle\n{NORM}return pickle.loads(b'cflax.nnx\\nLayerNorm\\n.')", "pickle.loads"),
        (f"import operator\nfrom flax import nnx\n{NORM}return "
            "operator.attrgetter('LayerNorm')(nnx)", "operator.attrgetter"),
        (f"import threading\n{NORM}return threading.Thread(target=print)", "threading.Thread"),
        (f"{NORM}return (lambda: (yield))().gi_frame.f_globals", "f_globals"),
        (f"from jax._src.nn.functions import standardize\n{NORM}return "
            "standardize(x)", "jax._src.nn.functions.standardize"),
        (f"import jax\nimport jax.numpy as jnp\njnp.mean = jax.nn.relu\n{NORM}return jnp.mean(x)", "jax.numpy.mean"),
        (f"from unittest.mock import patch\n{NORM}return patch('flax.nnx.LayerNorm')", "unittest.mock.patch"),
        (f"import dataclasses\n{NORM}return dataclasses.sys.modules['flax']", "dataclasses.sys.modules"),
        (f"from flax.nnx import *\n{NORM}return LayerNorm(4)(x)", "flax.nnx"),
        (f"import string\nfrom flax import nnx\n{NORM}return string.Formatter().get_field('0.__init__', (nnx.Linear,), "
            "{})",
         "string.Formatter"),
        (f"import typing\n{NORM}return typing.operator.attrgetter('a')", "typing.operator.attrgetter"),
        (f"from flax import nnx\ndef get(x, name):\n    return getattr(x, name)\n{NORM}return get(nnx.Linear, "
            "'y')", "getattr"),
        (f"import p99_made\n{NORM}return p99_made.norm(x)", "p99_made.norm"),
        (f"import jax.numpy as n\n{NORM}return n.mean(x)\ndef unused():\n    import math as "
            "n", "n (imported twice).mean"),
        (f"from jax.numpy import mean as f\ndef f(x):\n    return eval('x')\n{NORM}return f(x)", "eval"),
        (f"if __name__ == '__main__':\n    pass\nelse:\n    eval('x')\n{NORM}return x", "eval"),
        (f"__name__ = '__main__'\nif __name__ == '__main__':\n    eval('x')\n{NORM}return x", "eval"),
        (f"def __getattr__(name):\n    return eval(name)\n{NORM}return x", "eval"),
        (f"def f() -> eval('x'):\n    pass\n{NORM}return x", "eval"),
        (f"{NORM}return __builtins__['eval']('x')", "__builtins__"),
        (f"import numpy as np\n{NORM}return np.load('file', allow_pickle=True)", "numpy.load"),
        (f"import enum\n{NORM}return enum.bltns.eval('x')", "enum.bltns.eval"),
        (f"import logging\nt = logging.traceback\n{NORM}return t.sys.modules['flax.nnx'].LayerNorm(4)(x)",
         "logging.traceback.sys.modules"),
        (f"{NORM}match layer_norm:\n        case object(__globals__=names):\n            return "
            "names['x']", "__globals__"),
        (f"from typing_extensions import get_annotations\n{NORM}return get_annotations(x, eval_str=True)",
         "typing_extensions.get_annotations"),
        (f"class B: pass\nsetattr(B, '__annotations__', {{'x,f()': int}})\n{NORM}return dataclass(B)() == "
            "x", "__annotations__"),
        (f"import jaxtyping as jt\n{NORM}return isinstance(x, jt.Float[object, '{{f(x)}}'])", "text of a shape"),
        (f"from flax import nnx\ntry:\n    nnx.a\nexcept AttributeError as e:\n    n = e.obj\n{NORM}return "
            "n.LayerNorm(4)(x)",
         "obj"),
        (f"import functools\n{NORM}functools.update_wrapper(x, f, ('__builtins__',), ())\n    return "
            "x", "names of attributes"),
        (f"import functools\nwrap = functools.wraps\n{NORM}return wrap(x)", "functools.wraps"),
        (f"from functools import partial, update_wrapper as w\np = partial(w)\n{NORM}return p(x, f, ('a',))",
         "functools.update_wrapper"),
        (f"import jax\njax.tree_util.register_dataclass(type(print), ['__' + 'call__'], [])\n{NORM}return x",
         "names of attributes"),
        (f"import flax\n{NORM}return flax.traverse_util.TraverseAttr('a')", "flax.traverse_util.TraverseAttr"),
        (f"import enum\nclass A(enum.Enum):\n    pass\nB = A._convert_('B', 'flax.nnx', bool)\n{NORM}return "
            "x", "_convert_"),
        (f"from flax import nnx\n[m] = [nnx.initializers]\n{NORM}return m.tp(x)", "flax.nnx.initializers"),
        (f"from flax import nnx\n[m] = [nnx.rnglib.graphlib]\n{NORM}return m.tp(x)", "flax.nnx.rnglib.graphlib"),
        (f"import numpy as np\n[m] = [np.random.mtrand.warnings]\n{NORM}return m.a(x)", "numpy.random.mtrand.warnings"),
        (f"{NORM}return x.tp.sys.modules['flax.nnx'].LayerNorm(4)(x)", "sys"),
        (f"import typing\nr = typing.get_args(typing.List['x'])[0]._evaluate({{}}, {{}}, set())\n{NORM}return "
            "x", "_evaluate"),
        (f"import numpy as np\nnp.testing.measure('x')\n{NORM}return x", "numpy.testing.measure"),
        (f"from jax.experimental import serialize_executable as s\ns.deserialize_and_load(b'')\n{NORM}return x",
         "jax.experimental.serialize_executable.deserialize_and_load"),
        (f"from jaxtyping import Array, Float\n{NORM}return isinstance(x, Float[Array, "
            "'{print(1)}'])", "text of a shape"),
        (f"from jaxtyping import Array, Float\ns = 'T'\n{NORM}return isinstance(x, Float[Array, "
            "s])", "text of a shape"),
        (f"from jaxtyping import Array, Float\nF = Float\n{NORM}return isinstance(x, F[Array, "
            "'T'])", "jaxtyping.Float"),
        (f"class Box:\n    __slots__ = ('__dict__',)\n{NORM}return Box(x)", "__slots__"),
        (f"class Box:\n    __slots__ = (eval('x'),)\n{NORM}return Box(x)", "__slots__"),
        (f"class Box:\n    __slots__ = names = ('x',)\n{NORM}return Box(x)", "__slots__"),
        (f"class Box:\n    __slots__ = ('x',)\n    names = __slots__\n{NORM}return Box(x)", "__slots__"),
        (f"class Box:\n    pass\n{NORM}match x:\n        case Box(inside):\n            return "
            "inside", "pattern with positions"),
        (f"B = dataclass(type('B', (), {{'__anno' + 'tations__': {{'x,f()': int}}}}))\n{NORM}return B() == x", "type"),
        (f"make = type\n{NORM}return make('N', (), {{}})", "type"),
        (f"class Box:\n    pass\n{NORM}return type(Box)('N', (), {{}})", "the type of a value"),
        (f"class Kind(type):\n    pass\n{NORM}return Kind('N', (), {{}})", "type"),
        (f"class Box(metaclass=print):\n    pass\n{NORM}return Box(x)", "metaclass="),
    ],
)  # fmt: skip
def test_what_hides_a_call_is_refused(text: str, what: str):
    sentence = refused("04", text)
    assert f"{what}`" in sentence or f"{what}, and" in sentence
    assert (
        "the grader cannot see what is called there; this problem asks you to write `layer_norm` yourself" in sentence
    )


@pytest.mark.fast
def test_the_names_are_followed_into_other_files():
    helper = "import optax\n\ndef helper(*args):\n    return optax.adamw(*args)\n"
    for text in (
        f"from p08_train_step import helper\n{ADAM}return helper(*args)",
        f"import p08_train_step as other\n{ADAM}return other.helper(*args)",
        f"from p08_train_step import *\n{ADAM}return helper(*args)",
    ):
        assert "it uses `optax.adamw`" in refused("09", text, {"p08_train_step": helper})
        assert "(p08_train_step.py, line 4)" in refused("09", text, {"p08_train_step": helper})
    through = f"import p08_train_step as other\n{ADAM}return other.optax.adamw(*args)"
    assert "(mine.py, line 3)" in refused("09", through, {"p08_train_step": helper})


@pytest.mark.fast
@pytest.mark.parametrize(
    "more",
    [
        "def test_it():\n    return nnx.LayerNorm(4, rngs=nnx.Rngs(0))",
        "import torch, sys",
        "class Check:\n    def run(self):\n        return nnx.LayerNorm",
        "if __name__ == '__main__':\n    import sys\n    print(nnx.LayerNorm, sys.modules, eval('1'))",
        "nn = jax.nn\nprint(nn.relu(1.0), getattr(jnp, 'mean'), hasattr(nnx, 'LayerNorm'))",
        "class Token:\n    __slots__ = ('text', '_rank')\nToken()",
        "import jaxtyping as jt\nTree = jt.PyTree[jt.Float[jt.Array, '*B T-1 2*d ...'], 'T']\ndef f(x: "
        "jt.Int[jt.Array, '']): 0",
        "import functools\n@functools.wraps(print)\ndef show(*args):\n    print(*args)\nshow()",
        "import dataclasses\n@jax.tree_util.register_dataclass\n@dataclasses.dataclass\nclass State:\n    m: "
        "float\nState(1.0)",
        "from functools import partial\n@partial(jax.tree_util.register_dataclass, data_fields=['m'], meta_fields=[])\n"
        "class State:\n    m: float\nState()",
        "from jaxtyping import Array, Float\ndef f(x: Float[Array, '*B T=4 D/2']) -> Array:\n    return x\nf()",
        "class Token:\n    __slots__ = ['text']\nToken()",
        "class Box:\n    def __init__(self):\n        for i in (1, 2):\n            setattr(self, f'layer_{i}', "
        "type(i))\nBox()",
        "def f(x):\n    match x:\n        case (a, b) | [a, b]: return isinstance(a, type)\nf(1)",
    ],
)
def test_comparisons_and_plain_python_are_allowed(more: str):
    head = "import jax\nimport jax.numpy as jnp\nfrom flax import nnx\n"
    assert refused("04", f"{head}{NORM}return jnp.mean(x)\n{more}\n") == ""


@pytest.mark.fast
def test_attributes_with_names_of_a_list_are_allowed():
    loop = "for name in ('gate', 'up'):\n            setattr(self, name, nnx.Linear(4, 4, rngs=rngs))"
    call = "return sum(getattr(self, name)(x) for name in ['gate', 'up'])"
    text = "from flax import nnx\nclass RMSNorm(nnx.Module):\n    def __init__(self, rngs):\n        super().__init__()"
    text = f"{text}\n        {loop}\n    def __call__(self, x):\n        {call}\n"
    assert refused("38", text) == ""
    assert "`getattr` with a computed name" in refused("38", text.replace("['gate', 'up']", "['gate', '__dict__']"))


@pytest.mark.fast
def test_what_is_nested_too_deeply_is_refused():
    deep = "a" + ".b" * 5000
    assert "nested too deeply" in refused("04", f"{NORM}return x\ny = {deep}")


@pytest.mark.fast
def test_only_the_checks_that_use_it_are_lost():
    text = (
        "import optax\ndef finite_guard(inner):\n    return optax.apply_if_finite(inner, 9)\n"
        "def first_nonfinite(t):\n    pass"
    )
    lost = [bool(refused("13", text, check=number)) for number in range(7)]
    assert lost == [True] * 6 + [False]


def test_a_report_names_the_line_of_a_helper(grade: Grade, tmp_path: Path):
    (tmp_path / "p08_train_step.py").write_text("import optax\n\ndef helper(*args):\n    return optax.adamw(*args)\n")
    (tmp_path / "p09_adamw.py").write_text(f"from p08_train_step import helper\n{ADAM}return helper(*args)\n")
    run = grade("problem", "09", "p09_adamw.py", "--json", cwd=tmp_path)
    assert (run.code, run.json["score"]) == (1, 0)
    assert (
        "it uses `optax.adamw`, which this problem forbids: write `adamw` yourself" in run.json["checks"][0]["message"]
    )
    assert "(p08_train_step.py, line 4)" in run.json["checks"][0]["message"]
