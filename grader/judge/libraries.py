"""What the text of a submission may name in libraries, where a problem asks to write something: for `forbidden_names.py`."""

import ast
import importlib.util
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path

# JAX and its relatives, and modules of the standard library that import, evaluate and look up nothing by a text.
LIBRARIES = frozenset(
    """
    jax flax optax numpy orbax grain chex einops jaxtyping ml_dtypes tiktoken regex typing_extensions __future__ abc bisect
    cmath codecs collections contextlib copy dataclasses datetime decimal enum fractions functools heapq itertools json logging
    math numbers operator os pathlib pprint random re statistics string textwrap time types typing warnings
    """.split()
)
# Parts of them that do, and older libraries with the functions of newer ones.
HIDING = frozenset(
    """
    os.system os.popen types.ModuleType logging.config numpy.load numpy.f2py numpy.lib.format numpy.lib.npyio jax.numpy.load
    jax.experimental.pallas.ops
    """.split()
)
# The modules of large libraries whose parts may be named. Others load, run and test code, some of it from a text.
LARGE = frozenset({"flax", "jax", "numpy"})
MODULES = frozenset(
    """
    flax flax.core flax.linen flax.linen.initializers flax.nnx flax.nnx.initializers flax.nnx.nn flax.nnx.rnglib flax.nnx.statelib
    flax.nnx.variablelib flax.serialization flax.struct flax.training flax.training.train_state flax.traverse_util flax.typing
    jax jax.ad_checkpoint jax.core jax.custom_batching jax.custom_derivatives jax.debug jax.dtypes jax.errors jax.experimental
    jax.experimental.mesh_utils jax.experimental.pallas jax.experimental.shard_map jax.flatten_util jax.image jax.lax
    jax.lax.linalg jax.nn jax.nn.initializers jax.numpy jax.numpy.fft jax.numpy.linalg jax.ops jax.profiler jax.random jax.scipy
    jax.scipy.linalg jax.scipy.special jax.scipy.stats jax.sharding jax.stages jax.tree jax.tree_util jax.typing
    numpy numpy.dtypes numpy.exceptions numpy.fft numpy.linalg numpy.ma numpy.polynomial numpy.random numpy.typing
    """.split()
)
# Functions that read attributes by their names as texts, and the number of arguments before those.
BY_TEXTS = {"register_dataclass": 1, "update_wrapper": 2, "wraps": 1}
# jaxtyping evaluates the text of a shape, so it must be a plain one. These of its names take no such text.
SHAPE = r"[\w\s*#?=+\-./…]*"
SHAPELESS = frozenset("Array ArrayLike PRNGKeyArray PyTree PyTreeDef Scalar ScalarLike".split())
# Names of such parts, in whatever module they are found.
HIDING_NAMES = frozenset(
    """
    CodeType ForwardRef Formatter FunctionType TraverseAttr attrgetter ctypeslib evaluate_forward_ref get_annotations
    get_type_hints import_module install_import_hook jaxtyped methodcaller rundocs runstring singledispatch singledispatchmethod
    """.split()
)
# Modules that libraries import, and so have as attributes.
INSIDE = frozenset(
    "builtins ctypes flax functools gc importlib inspect jax jnp np operator optax os pickle sys types".split()
)
OWN = {"os": frozenset({"path"})}  # modules of another name that are public parts of a library
STREAMS = ("sys.stderr", "sys.stdout")
BUILTINS = frozenset("breakpoint compile eval exec getattr globals locals type vars".split())
# Attributes that begin with two underscores and lead to no other code.
PLAIN = frozenset(
    f"__{name}__"
    for name in "add call class contains doc enter eq exit getitem init init_subclass iter len matmul mul name next post_init "
    "qualname repr setattr setitem str sub file".split()
)
# Others that do: of frames, of the object in an AttributeError, methods that look up or evaluate a text, modules in a module.
FRAMES = frozenset(
    f"{kind}_{part}" for kind in ("f", "tb", "gi", "cr", "ag")
    for part in ("back", "builtins", "code", "frame", "globals", "locals", "next")
) | {"mro", "obj", "_convert", "_convert_", "_evaluate"} | (INSIDE - {"operator", "types"})  # fmt: skip


def is_module(dotted: str) -> bool:
    """Whether a full name is that of a module of a library. Imports nothing."""
    top, *rest = dotted.split(".")
    if top not in LIBRARIES or not rest:
        return top in LIBRARIES and _spec(top) is not None
    return bool(_places(dotted)) or rest[-1] in _bound_to_modules(dotted.rpartition(".")[0])


@cache
def _spec(top: str) -> ModuleSpec | None:
    return importlib.util.find_spec(top)


@cache
def _places(dotted: str) -> tuple[Path, ...]:
    """The files of a module, as Python text or compiled. Imports nothing."""
    top, *rest = dotted.split(".")
    if (spec := _spec(top)) is None:
        return ()
    if not rest:
        return (Path(spec.origin),) if spec.origin else ()
    places = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    compiled = [file for place in places for ending in EXTENSION_SUFFIXES for file in [place.with_suffix(ending)]]
    return tuple(file for file in (*files, *compiled) if file.is_file())


def _source(dotted: str) -> Path | None:
    """The file of a module, if it is Python text."""
    return next((file for file in _places(dotted) if file.suffix == ".py"), None)


@cache
def _bound_to_modules(dotted: str) -> frozenset[str]:
    """The names that a module binds to other modules of its library, as `flax.nnx` binds `initializers`."""
    source, names = _source(dotted), set[str]()
    for node in ast.walk(ast.parse(source.read_bytes())) if source else ():
        if isinstance(node, ast.Import):
            names.update(one.asname or one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = dotted.split(".") if source and source.name == "__init__.py" else dotted.split(".")[:-1]
            parts = (
                [*package[: len(package) + 1 - node.level], *filter(None, [node.module])]
                if node.level
                else [node.module or ""]
            )
            names.update(one.asname or one.name for one in node.names if _places(".".join([*parts, one.name])))
    return frozenset(names)


@cache
def borrowed(dotted: str) -> frozenset[str]:
    """The names by which a module knows modules of other libraries, imported for its own use, as `enum` knows `builtins`."""
    source, own = _source(dotted), dotted.partition(".")[0]
    names = dict[str, str]()
    for node in ast.walk(ast.parse(source.read_bytes())) if source else ():
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name.partition(".")[0]: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            names |= {name: way for name, way in whole.items() if _source(way)}
    return frozenset(name for name, way in names.items() if way.partition(".")[0] != own) - OWN.get(dotted, frozenset())
