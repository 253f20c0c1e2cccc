"""Finds, in the text of a submission, calls of library functions that the learner is asked to write. Runs nothing.

The judge follows the names that a graded entry uses, through all files of the submission, and the code that runs when
they are imported. Each name of a library must be a plain dotted name, so that the text shows what is called. A
construct that hides the name is refused.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from commandline.text import printable
from grader.course import imports
from grader.judge.libraries import (
    BUILTINS,
    BY_TEXTS,
    FRAMES,
    HIDING,
    HIDING_NAMES,
    INSIDE,
    LARGE,
    LIBRARIES,
    MODULES,
    PLAIN,
    SHAPE,
    SHAPELESS,
    STREAMS,
    borrowed,
    is_module,
)
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure
from grader.problem import Check, Problem

ASKED = "{asked}"
UNSEEN = f"and the grader cannot see what is called there; this problem asks you to write {ASKED} yourself"
ELSEWHERE = 'a comparison belongs under `if __name__ == "__main__":`'


class _RefusedError(Exception):
    """The submission is refused. The message is the reason, and `node` is the part of the syntax tree that it is
    about."""

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node = node


@dataclass(eq=False)
class _File:
    """A file of the submission.

    Attributes:
        name: The name of the module.
        filename: The name of the file in reports.
        lines: The lines of its text.
        imported: The full names that imports bind, by the name in the file.
        defined: The statements that define each name.
        runs: The nodes that run when the file is imported.
        stars: The modules from which it imports all names.
        literal: The variables that only hold texts from the file.
        decorators: The ids of nodes that are decorators.
    """

    name: str
    filename: str
    lines: Sequence[str]
    imported: dict[str, str] = field(default_factory=dict)
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    runs: list[ast.AST] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)
    literal: set[str] = field(default_factory=set)  # variables whose only values are texts that stand in the file
    decorators: set[int] = field(default_factory=set)  # ids of their nodes

    @classmethod
    def parsed(cls, name: str, filename: str, text: str) -> "_File":
        """Parses the text of a file. Raises what `ast.parse` raises."""
        tree = imports.syntax_tree(text)
        file = cls(name, filename, text.splitlines())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    file._bind(one.asname or top, one.name if one.asname else top)
            elif isinstance(node, ast.ImportFrom):
                for one in node.names:
                    file._bind(one.asname or one.name, f"{node.module}.{one.name}")
                file.stars += [node.module or "" for one in node.names if one.name == "*"]
        for node in ast.walk(tree):
            file.decorators.update(map(id, getattr(node, "decorator_list", ())))
            for name, dotted in file.renamed(node).items():
                file._bind(name, dotted)
        file.literal = _literal(tree)
        is_script = not any(_binds_name(node) for node in ast.walk(tree))
        for statement in tree.body:
            file._add(statement, is_script)
        return file

    def _bind(self, name: str, dotted: str) -> None:
        """Binds a name to the module or name that an import gives. If two imports bind the same name to different ones,
        it is ambiguous, and names nothing in a library."""
        self.imported[name] = dotted if self.imported.get(name, dotted) == dotted else f"{name} (imported twice)"

    def _add(self, statement: ast.stmt, is_script: bool) -> None:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            self.defined.setdefault(statement.name, []).append(statement)
            self.runs += [*statement.decorator_list, *ast.iter_child_nodes(statement.args)]
            self.runs += [statement.returns] if statement.returns else []
        elif isinstance(statement, ast.ClassDef):
            self.defined.setdefault(statement.name, []).append(statement)
            inside = [part for part in statement.body if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            self.runs += [*statement.decorator_list, *statement.bases, *statement.keywords, *inside]
        elif is_script and isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
            self.runs += statement.orelse
        else:
            self.runs.append(statement)

    def renamed(self, node: ast.AST) -> dict[str, str]:
        """Returns the names that an assignment gives to a module of a library, as in `nn = jax.nn`."""
        if not (isinstance(node, ast.Assign) and is_module(dotted := self.dotted(node.value))):
            return {}
        return {target.id: dotted for target in node.targets if isinstance(target, ast.Name)}

    def dotted(self, node: ast.AST) -> str:
        """Returns the full name of an expression that names something in a library or another file; empty for any
        other."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and len(node.args) > 1
        ):
            base, name = self.dotted(node.args[0]), node.args[1]
            if base and isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.isidentifier():
                return f"{base}.{name.value}"
        return ""

    def by_texts(self, node: ast.Call) -> tuple[list[ast.expr], list[ast.expr]] | None:
        """Returns the arguments of a function of `BY_TEXTS`: objects, and names of attributes. None if another is
        called."""
        called, *arguments = [node.func, *node.args]
        if self.dotted(called) == "functools.partial" and arguments and id(node) in self.decorators:
            called, *arguments = arguments
        if (most := BY_TEXTS.get(self.dotted(called).rpartition(".")[2])) is None:
            return None
        return arguments[:most], [*arguments[most:], *(one.value for one in node.keywords)]


def entries(problem: Problem, check: Check) -> tuple[str, ...]:
    """Returns the entries that the probe of a check calls. The text is the same for all checks with the same ones."""
    entry = check.options.get("entry")
    return (str(entry),) if entry else check.calls or tuple(one.name for one in problem.entries)


def refusal(problem: Problem, submission: Submission, check: Check) -> Failure | None:
    """Returns the reason why the text of a submission fails a check by a forbidden call; None if it has none, or if the
    problem forbids nothing."""
    if not problem.forbids:
        return None
    try:
        return _Reader(problem, submission).follow(entries(problem, check))
    except (SyntaxError, ValueError):
        return None  # Python refuses it, too
    except (RecursionError, MemoryError):  # Python may have more room for it
        return Failure("forbidden", message="it is nested too deeply for the grader to read what it calls")


@dataclass
class _Reader:
    """Follows names through the files of one submission."""

    problem: Problem
    submission: Submission

    def __post_init__(self) -> None:
        own = self.problem.name
        self.files = {
            name: _File.parsed(name, self.submission.filename if name == own else f"{name}.py", text)
            for name, text in self.submission.sources.items()
        }
        self.waiting: list[tuple[_File, ast.AST]] = []
        self.seen: set[int] = set()

    def follow(self, names: Sequence[str]) -> Failure | None:
        """Follows the code that runs on import, and these names of the submitted file. Returns the first refusal."""
        for file in self.files.values():
            for node in file.runs:
                self._reach(file, node)
            self._reach_name(file, "__getattr__")  # Python calls it for a name that the file does not define
        for name in names:
            self._reach_name(self.files[self.problem.name], name)
        while self.waiting:
            file, node = self.waiting.pop()
            try:
                self._read(file, node)
            except _RefusedError as error:
                line = int(getattr(error.node, "lineno", 1))
                message = str(error).replace(ASKED, " and ".join(f"`{name}`" for name in names))
                code = printable(file.lines[line - 1].strip())[:200]
                return Failure("forbidden", message=printable(message), frames=((file.filename, line, "", code),))
        return None

    def _reach(self, file: _File, node: ast.AST) -> None:
        if id(node) not in self.seen:
            self.seen.add(id(node))
            self.waiting.append((file, node))

    def _reach_name(self, file: _File, name: str) -> None:
        for node in file.defined.get(name, ()):
            self._reach(file, node)
        for other in file.stars if name not in file.defined else ():
            if other in self.files and name not in self.files[other].stars:
                self._reach_name(self.files[other], name)

    def _read(self, file: _File, node: ast.AST) -> None:
        """Raises _RefusedError if a part of the syntax tree makes a forbidden call, or hides what it calls."""
        if file.renamed(node):
            return
        if dotted := file.dotted(node):
            self._read_full_name(file, node, dotted)
            return
        match node:
            case ast.Call():
                parts = self._read_call(file, node)
            case ast.Subscript(value=value) if file.dotted(value).startswith("jaxtyping."):
                parts = self._read_annotation(file, node)
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value) if _are_names(value):
                parts = []
            case _:
                self._refuse(file, node)
                parts = None
        for part in ast.iter_child_nodes(node) if parts is None else parts:
            self._read(file, part)

    def _read_full_name(self, file: _File, node: ast.AST, dotted: str) -> None:
        """Reads an expression that names something in a library or in another file of the submission."""
        if dotted.rpartition(".")[2] in BY_TEXTS and id(node) not in file.decorators:
            raise _RefusedError(node, f"it hands on `{dotted}`, {UNSEEN}")
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            raise _RefusedError(node, f"it changes `{dotted}`, {UNSEEN}")
        base = next(one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in file.imported)
        self._reach_name(file, base.id)  # the file may define it, too
        if not (isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)):
            self._follow(node, dotted)

    def _read_call(self, file: _File, node: ast.Call) -> Sequence[ast.expr] | None:
        """Returns the parts of a call that are left to read; None means all of them."""
        match node:
            case ast.Call(func=ast.Name(id="type"), args=[one], keywords=[]):  # the type of a value
                return [one]
            case ast.Call(func=ast.Name(id="isinstance"), args=[owner, ast.Name(id="type")]):
                return [owner]
            case ast.Call(func=ast.Call(func=ast.Name(id="type"))):  # the type of a class makes classes
                raise _RefusedError(node, f"it calls the type of a value, {UNSEEN}")
            case ast.Call() if (found := file.by_texts(node)) is not None:
                objects, texts = found
                if not all(map(_are_names, texts)) or any(isinstance(one, ast.Starred) for one in objects):
                    raise _RefusedError(node, f"it computes the names of attributes, {UNSEEN}")
                return objects
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, name, *more]):
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    _plain(node, name.value)
                elif not (isinstance(name, ast.Name) and name.id in file.literal):
                    raise _RefusedError(node, f"it uses `getattr` with a computed name, {UNSEEN}")
                return [owner, name, *more]
            case ast.Call(func=ast.Name(id="hasattr"), args=[owner, _]) if file.dotted(owner):
                return []
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_]) if file.dotted(owner):
                raise _RefusedError(node, f"it changes `{file.dotted(owner)}`, {UNSEEN}")
        return None

    def _read_annotation(self, file: _File, node: ast.Subscript) -> Sequence[ast.expr]:
        """Returns the parts of an annotation by jaxtyping that are left to read, which its shape is not."""
        name = file.dotted(node.value).rpartition(".")[2]
        index = node.slice
        kind, *shapes = index.elts if isinstance(index, ast.Tuple) and name not in SHAPELESS else [index]
        if name not in SHAPELESS and not (shapes and all(map(_is_shape, shapes))):
            raise _RefusedError(node, f"it computes the text of a shape, {UNSEEN}")
        return [kind]

    def _refuse(self, file: _File, node: ast.AST) -> None:
        """Raises _RefusedError if this node makes a forbidden call or hides what is called, whatever its parts are."""
        match node:
            case ast.ImportFrom(module=module) if module not in self.files and any(
                one.name == "*" for one in node.names
            ):
                raise _RefusedError(node, f"it imports all names of `{module}`, {UNSEEN}")
            case ast.Name(id=name):
                if name in BUILTINS or (_is_dunder(name) and name not in PLAIN):
                    raise _RefusedError(node, f"it uses `{name}`, {UNSEEN}")
                self._reach_name(file, name)
            case ast.Attribute(attr=name):
                _plain(node, name)
            case ast.Constant(value="__annotations__"):  # a dataclass executes these names
                raise _RefusedError(node, f"it has the text `__annotations__`, {UNSEEN}")
            case ast.MatchClass(patterns=[_, *_]):  # it reads the attributes that `__match_args__` names
                raise _RefusedError(node, f"it has a class pattern with positions, {UNSEEN}")
            case ast.MatchClass(kwd_attrs=names):  # a pattern such as `object(name=x)` reads attributes
                for name in names:
                    _plain(node, name)
            case ast.ClassDef(keywords=keywords) if any(one.arg != "kw_only" for one in keywords):
                raise _RefusedError(node, f"it makes a class with `{keywords[0].arg or '**'}=`, {UNSEEN}")

    def _follow(self, node: ast.AST, dotted: str) -> None:
        """Follows a full name into another file of the submission. Raises _RefusedError if it is a forbidden name of a
        library."""
        top, *rest = dotted.split(".")
        if other := self.files.get(top):
            if not rest:
                raise _RefusedError(node, f"it hands on the module `{top}` itself, {UNSEEN}")
            if imported := other.imported.get(rest[0]):
                self._follow(node, ".".join([imported, *rest[1:]]))
            self._reach_name(other, rest[0])
        elif reason := self._fault(dotted):
            raise _RefusedError(node, reason)

    def _fault(self, dotted: str) -> str:
        """Returns what is wrong with the use of a full name in a library; empty if nothing is."""
        top, *rest = dotted.split(".")
        ways = [".".join([top, *rest[:number]]) for number in range(len(rest) + 1)]
        private = any(part.startswith("_") and part not in PLAIN for part in rest)
        if ways[1:2] and ways[1] in STREAMS and not private:
            return ""
        if private or _leads_elsewhere(ways, rest):
            return f"it reaches `{dotted}`, {UNSEEN}"
        ruled = [way for way in ways if way in self.problem.forbids or way in self.problem.allows]
        # A library may have a function under several names, and so may another library.
        same = {name.rpartition(".")[2] for name in self.problem.forbids if not is_module(name)}.intersection(rest)
        if ruled[-1] in self.problem.forbids if ruled else same:
            named = dotted in self.problem.forbids or same
            why = (
                f"which this problem forbids: write {ASKED} yourself"
                if named
                else "which is not among the functions that this problem allows"
            )
            return f"it uses `{dotted}`, {why}; {ELSEWHERE}"
        return f"it hands on the module `{dotted}` itself, {UNSEEN}" if is_module(dotted) else ""


def _leads_elsewhere(ways: Sequence[str], rest: Sequence[str]) -> bool:
    """Returns whether a full name is in no library that the grader knows, or leads from there to code that it cannot
    see.

    `rest` are the parts of the name after that of the library, and `ways` the names on the way to it, the library
    first.
    """
    top = ways[0]
    inside = INSIDE.intersection(rest[1:] if ways[1:2] in (["jax.numpy"], ["flax.nnx"]) else rest)
    shape = top == "jaxtyping" and rest and rest[0] not in SHAPELESS  # without a text in brackets
    return bool(
        top not in LIBRARIES
        or inside
        or HIDING.intersection(ways)
        or HIDING_NAMES.intersection(rest)
        or any(name in borrowed(way) for way, name in zip(ways, rest, strict=False))
        or (top in LARGE and any(way not in MODULES and is_module(way) for way in ways))
        or shape
    )


def _plain(node: ast.AST, name: str) -> None:
    """Raises _RefusedError if an attribute of this name leads to other code."""
    if name in FRAMES or (_is_dunder(name) and name not in PLAIN):
        raise _RefusedError(node, f"it reaches `{name}`, {UNSEEN}")


def _are_names(node: ast.AST) -> bool:
    """Returns whether an expression is a tuple or a list of plain texts that can name attributes."""
    texts = [getattr(part, "value", None) for part in node.elts] if isinstance(node, ast.Tuple | ast.List) else [None]
    return all(isinstance(text, str) and text.isidentifier() and not text.startswith("__") for text in texts) and (
        not FRAMES.intersection(texts)
    )


def _is_shape(node: ast.AST) -> bool:
    """Returns whether an expression is a plain text of a shape."""
    text = getattr(node, "value", None)
    return isinstance(text, str) and re.fullmatch(SHAPE, text) is not None


def _literal(tree: ast.AST) -> set[str]:
    """Returns the variables that only loops over plain texts bind, as in `for name in ("gate", "up")`."""
    targets, names = dict[int, str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
            texts = [
                part.value if isinstance(part, ast.Constant) else "" for part in getattr(node.iter, "elts", [node.iter])
            ]
            if all(isinstance(text, str) and text.isidentifier() and not text.startswith("_") for text in texts):
                targets[id(node.target)] = node.target.id
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in targets:
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return set(targets.values()) - names - FRAMES


def _binds_name(node: ast.AST) -> bool:
    """Returns whether a node assigns `__name__`: then the code below `if __name__ == "__main__":` may run."""
    bound = [getattr(node, field, None) for field in ("name", "asname", "rest")]
    if isinstance(node, ast.Name):
        bound = [node.id] if not isinstance(node.ctx, ast.Load) else []
    return "__name__" in [*bound, *(node.names if isinstance(node, ast.Global) else ())]


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
