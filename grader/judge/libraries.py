"""The names of libraries that a submission may use where the learner is asked to write something: for
`forbidden_names.py`.

The names are in `libraries.toml`, with the purpose of each list.
"""

import ast
import importlib.util
import tomllib
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path

from grader.course import imports

_TABLE = tomllib.loads(Path(__file__).with_name("libraries.toml").read_text(encoding="utf-8"))
LIBRARIES, HIDING, HIDING_NAMES, LARGE, MODULES, INSIDE, SHAPELESS, BUILTINS = (
    frozenset[str](_TABLE[name])
    for name in ("libraries", "hiding", "hiding_names", "large", "modules", "inside", "shapeless", "builtins")
)
STREAMS: list[str] = _TABLE["streams"]
BY_TEXTS: dict[str, int] = _TABLE["by_texts"]
# jaxtyping evaluates the text of a shape, so it must be a plain one.
SHAPE = r"[\w\s*#?=+\-./…]*"
# Attributes that begin with two underscores and lead to no other code.
PLAIN = frozenset(f"__{name}__" for name in _TABLE["plain"])
# Others that do: of frames, of other objects, modules in a module.
FRAMES = (
    frozenset(f"{kind}_{part}" for kind in _TABLE["frames"]["kinds"] for part in _TABLE["frames"]["parts"])
    | frozenset(_TABLE["leading"])
    | (INSIDE - {"operator", "types"})
)


def is_module(dotted: str) -> bool:
    """Returns whether a full name is that of a module of a library. Imports nothing."""
    top, *rest = dotted.split(".")
    if top not in LIBRARIES or not rest:
        return top in LIBRARIES and _spec(top) is not None
    return bool(_places(dotted)) or rest[-1] in _bound_to_modules(dotted.rpartition(".")[0])


@cache
def _spec(top: str) -> ModuleSpec | None:
    return importlib.util.find_spec(top)


@cache
def _places(dotted: str) -> tuple[Path, ...]:
    """Returns the files of a module, as Python text or compiled. Imports nothing."""
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
    """Returns the file of a module, if it is Python text."""
    return next((file for file in _places(dotted) if file.suffix == ".py"), None)


@cache
def _bound_to_modules(dotted: str) -> frozenset[str]:
    """Returns the names that a module binds to other modules of its library, as `flax.nnx` binds `initializers`."""
    source, names = _source(dotted), set[str]()
    for node in ast.walk(imports.syntax_tree(source.read_bytes())) if source else ():
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
    """Returns the names that a module gives to modules of other libraries, which it imports for its own use, as `enum`
    does with `builtins`."""
    source, own = _source(dotted), dotted.partition(".")[0]
    names = dict[str, str]()
    for node in ast.walk(imports.syntax_tree(source.read_bytes())) if source else ():
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name.partition(".")[0]: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            names |= {name: way for name, way in whole.items() if _source(way)}
    return frozenset(name for name, way in names.items() if way.partition(".")[0] != own).difference(
        _TABLE["own"].get(dotted, ())
    )
