"""Other names for the local variables of a program, and no comments: so that a comparison with one's own file shows no fault."""

import ast
import builtins
import hashlib
import io
import keyword
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item")

_SHAPED = re.compile(r"(.+?)(_[A-Z0-9][A-Za-z0-9]{0,5})?")  # a name, and the shape at its end
_STEMS = {
    "abstract": ["shapes", "outline"], "arrays": ["loaded", "stored"], "attention": ["attn", "mixer"], "axes": ["dims", "where"],
    "batch": ["rows", "chunk"], "before": ["earlier", "so_far"], "block": ["layer", "unit"], "centered": ["shifted", "delta"],
    "count": ["n", "number"], "counts": ["real", "keep"], "dataset": ["source", "data"], "factor": ["ratio", "shrink"],
    "finite": ["fine", "ok"], "gradient": ["slope", "grad"], "gradients": ["grads", "slopes"], "graphdef": ["graph", "static"],
    "heads": ["parts", "split"], "hidden": ["inner", "mid"], "k": ["key", "kk"], "keep": ["stays", "live"],
    "keys": ["ks", "k_all"], "kernels": ["mats", "matrices"], "layer": ["unit", "piece"], "leaf": ["item", "array"],
    "logits": ["raw", "scores_out"], "loss": ["value", "cost"], "losses": ["nll", "costs"], "m": ["first", "mu"],
    "mask": ["allowed", "visible"], "mean": ["mu", "average"], "missing": ["short", "gap"], "mixed": ["joined", "context"],
    "model": ["net", "module"], "norm": ["length", "size"], "normal": ["scaled", "unit"], "odds": ["probs", "p"],
    "optimizer": ["opt", "trainer"], "order": ["ranking", "index"], "out": ["result", "y"], "parts": ["pieces", "micro"],
    "path": ["route", "place"], "peak": ["top", "largest"], "position": ["pos", "at"], "positions": ["places", "pos"],
    "predictions": ["guesses", "pred"], "q": ["query", "qq"], "rows": ["lines", "batch"], "s": ["second", "sq"],
    "scale": ["gain", "step"], "scores": ["sims", "affinity"], "share": ["fraction", "progress"], "spec": ["layout", "split"],
    "square": ["second", "sq"], "state": ["current", "st"], "table": ["matrix", "emb"], "target": ["goal", "want"],
    "targets": ["wanted", "labels"], "token": ["tok", "sym"], "token_ids": ["ids", "stream"], "tokens": ["toks", "ids"],
    "total": ["whole", "acc"], "v": ["val", "vv"], "values": ["vs", "v_all"], "variance": ["var", "spread"],
    "visible": ["mask", "seen"], "weight": ["blend", "w"], "weights": ["probs", "w"], "words": ["vocab", "pieces"],
    "zeros": ["blank", "start"],
}  # fmt: skip
_OTHERS = (
    "acc aux base buf cell chunk cur data elem entry fresh gain group info item kept left link main mark next_one node obj part "
    "pick piece prev rest right seed_value side slot spare stage step_value sub tail temp unit val view"
).split()


def by_seed(items: Iterable[Item], seed: str) -> list[Item]:
    """The items in an order that depends on nothing but the seed and their texts."""
    return sorted(items, key=lambda item: hashlib.sha256(f"{seed}\0{item}".encode()).digest())


def new_names(sources: Sequence[str], seed: str) -> dict[str, str]:
    """A new name for each local name of these programs that nothing outside of its function can know.

    Not renamed: names of modules, entries and their parameters, names of keyword arguments, axis letters.
    """
    trees = [ast.parse(source) for source in sources]
    taken = {name for tree in trees for name in _all_names(tree)} | set(keyword.kwlist) | set(dir(builtins))
    fixed = {name for tree in trees for name in _fixed(tree)}
    found = {name for tree in trees for name in _local(tree)} - fixed - set(dir(builtins))
    others, names = iter(by_seed(_OTHERS, seed)), {}
    for name in sorted(found):
        if (len(name) < 2 and name.isupper()) or not name.strip("_"):
            continue
        match = _SHAPED.fullmatch(name)
        stem, shape = (match[1], match[2] or "") if match else (name, "")
        for candidate in [*by_seed(_STEMS.get(stem, []), seed + name), *others]:
            if (new := candidate + shape) not in taken:
                names[name] = new
                taken.add(new)
                break
    return names


def disguised(source: str, names: Mapping[str, str]) -> str:
    """The program with these names, without comments and docstrings. It does the same."""
    lines = source.splitlines()
    drops = {number for span in _docstrings(ast.parse(source)) for number in range(span[0], span[1] + 1)}
    edits: list[tuple[int, int, int, str]] = []
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            if lines[row - 1][:column].strip():
                edits.append((row, len(lines[row - 1][:column].rstrip()), len(lines[row - 1]), ""))
            else:
                drops.add(row)
        elif token.type == tokenize.NAME and before != "." and token.string in names:
            edits.append((row, column, token.end[1], names[token.string]))
        before = token.string
    for row, start, end, text in sorted(edits, reverse=True):
        lines[row - 1] = lines[row - 1][:start] + text + lines[row - 1][end:]
    kept = "\n".join(line.rstrip() for number, line in enumerate(lines, 1) if number not in drops)
    return re.sub(r"(:\n)\n+", r"\1", re.sub(r"\n{4,}", "\n\n\n", kept)).strip() + "\n"


def _docstrings(tree: ast.Module) -> Iterable[tuple[int, int]]:
    """The first and the last line of each docstring of a body that has more than that."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and len(node.body) > 1:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first.lineno, first.end_lineno or first.lineno


def _all_names(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]


def _fixed(tree: ast.Module) -> set[str]:
    """The names that must stay: those of the module and of classes, parameters of their functions, keywords, in f-strings."""
    fixed: set[str] = set()
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for body in bodies:
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                fixed |= {statement.name, *_parameters(statement.args)}
            else:
                fixed |= set(_bound(statement))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            fixed.add(node.arg)
        elif isinstance(node, ast.JoinedStr):
            fixed |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            fixed |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            fixed |= set(node.names)
    return fixed


def _bound(node: ast.AST) -> Iterable[str]:
    """The names that a statement of a module or class binds."""
    if isinstance(node, ast.ClassDef):
        yield node.name
        return
    yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def _parameters(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument]


def _local(tree: ast.Module) -> set[str]:
    """The names that functions bind: variables, inner functions and their parameters."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            names |= set(_parameters(node.args))
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
    return names
