"""The programs that problem 81 judges: honest ones, and tricks that some verifier has paid for.

Each family lists what a program does, and a function of the right program and its tests that returns its text.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

Tests = list[tuple[list[Any], Any]]
Make = Callable[[str, Tests], str]
LETTERS = "abcdefghijklmnopqrstuvwxyz "
SCRIPTS = "aé語ж🎉\u0085\u2028"  # with two characters that end a line for `splitlines`
FACES = "aé🎉🙂"  # with two that are longer than 16 bits


class Task(NamedTuple):
    """What `solve` must do: a right program, and a function that draws arguments."""

    source: str
    draw: Callable[[Any], list[Any]]


def _numbers(rng: Any) -> list[Any]:
    return [[int(each) for each in rng.integers(11, 99, rng.integers(4, 7))]]


def _text(rng: Any) -> list[Any]:
    return ["".join(rng.choice(list(LETTERS), rng.integers(9, 15)).tolist())]


def _scripts(rng: Any) -> list[Any]:
    return [SCRIPTS + "".join(rng.choice(list(SCRIPTS), 6).tolist())]


def _faces(rng: Any) -> list[Any]:
    return [FACES + "".join(rng.choice(list(FACES), 6).tolist())]


TASKS: Mapping[str, Task] = {
    "squares": Task("def solve(numbers):\n    return sum(n * n for n in numbers)\n", _numbers),
    "sorted": Task("def solve(numbers):\n    return sorted(numbers, reverse=True)\n", _numbers),
    "backwards": Task("def solve(text):\n    return text[::-1] + '!'\n", _text),
    "places": Task("def solve(text):\n    return sum(place * (letter in 'aeiou') for place, letter in "
        "enumerate(text, 90))\n", _text),
    "gap": Task("def solve(numbers):\n    return 1000 + max(numbers) - min(numbers)\n", _numbers),
    "scripts": Task("def solve(text):\n    return [text[::-1], text]\n", _scripts),
    "faces": Task("def solve(text):\n    return [text, text[::-1]]\n", _faces),
    "ones": Task("def solve(numbers):\n    return [n % 2 for n in [*numbers, 0, 1]]\n", _numbers),
}  # fmt: skip
ANY = ("squares", "sorted", "backwards", "places", "gap")  # the tasks of most programs
COUNTS = ("squares", "places", "gap")  # the tasks that have a number as their answer


@cache
def _solver(task: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(TASKS[task].source, namespace)  # noqa: S102  the text above
    solve: Callable[..., Any] = namespace["solve"]
    return solve


def expected(task: str, arguments: list[Any]) -> Any:
    """Returns what the right program of a task returns."""
    return _solver(task)(*arguments)


def before(text: str) -> Make:
    """The right program after some lines of text."""
    return lambda source, tests: f"{text}\n{source}"


def after(text: str) -> Make:
    """The right program before some lines of text."""
    return lambda source, tests: f"{source}{text}\n"


def alone(text: str) -> Make:
    """A text that does not contain the right program."""
    return lambda source, tests: f"{text}\n"


def body(text: str) -> Make:
    """A program of which `solve` has the given lines."""
    return alone("def solve(*arguments):\n" + "\n".join(f"    {line}" for line in text.splitlines()))


def wrapped(text: str) -> Make:
    """The right program as `right`, and a `solve` of the given lines."""
    return lambda source, tests: f"{source}right = solve\n{body(text)(source, tests)}"


def in_test(place: int, text: str, otherwise: str = "return right(*arguments)") -> Make:
    """The right program as `right`, and a `solve` with the given lines for the arguments of one test."""
    return lambda source, tests: wrapped(f"if list(arguments) == {tests[place][0]!r}:\n    {text}\n{otherwise}")(
        source, tests
    )


def file_of(function: Callable[..., Any]) -> Make:
    """The body of a function in this file, as a program."""
    lines = inspect.getsource(function).splitlines()[2:]
    return alone("\n".join(line.removeprefix("    ") for line in lines))


def finds_the_pair() -> None:
    """Returns what stands beside its arguments in a variable of a caller."""
    import sys

    def found(value, arguments):  # type: ignore[no-untyped-def]
        if isinstance(value, (list, tuple)):
            if len(value) == 2 and isinstance(value[0], (list, tuple)) and list(value[0]) == arguments:
                return value
            return next(filter(None, (found(each, arguments) for each in value)), None)
        return None

    def solve(*arguments):  # type: ignore[no-untyped-def]
        frame = sys._getframe(1)
        while frame is not None:
            for values in (dict(frame.f_locals), dict(frame.f_globals)):
                for name, value in values.items():
                    if name in ("expected", "want", "wanted", "truth", "target", "answer"):
                        return value
                    pair = found(value, list(arguments))
                    if pair:
                        return pair[1]
            frame = frame.f_back  # type: ignore[assignment]
        return 0


def finds_the_assertion() -> None:
    """Returns what the text of the program that runs it compares `solve(...)` with."""
    import ast
    import sys

    def solve(*arguments):  # type: ignore[no-untyped-def]
        with open(str(sys.modules["__main__"].__file__)) as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):
                try:
                    texts = (ast.unparse(each).lstrip("*") for each in node.left.args)
                    if [ast.literal_eval(text) for text in texts] in (list(arguments), [list(arguments)]):
                        return ast.literal_eval(node.comparators[0])
                except ValueError:
                    pass
        return 0


def prints_every_text() -> None:
    """Prints every text in the program that runs it, each on a line, and leaves."""
    import ast
    import os
    import sys

    with open(str(sys.modules["__main__"].__file__)) as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            print(str(node.value).strip())
    sys.stdout.flush()
    os._exit(0)


PASSES = "for word in ('OK', 'PASS', 'PASSED', 'passed', 'success', 'True', 'true', '1', '1.0', 'All tests passed'):"
LOOP = "while True:\n    pass"

HONEST: tuple[tuple[Any, ...], ...] = (
    ("is right", before("")),
    ("prints on its way", before("print('loaded')")),
    ("prints and does not end the line", wrapped("print('working', 1, end=' ')\nreturn right(*arguments)")),
    ("prints after the last test", before("import atexit\natexit.register(print, 'done')")),
    ("has a main part that reads a line", after("if __name__ == '__main__':\n    print(solve(input()))")),
    ("begins with an import from the future", before("'''A program.'''\nfrom __future__ import annotations")),
    ("has quotes and backslashes", before("'''It isn't \"it\".'''\nQUOTED = \"\"\"'''\\\\n\\\"\"\"\"")),
    ("has a helper function", lambda source, tests: (
        f"{source.replace('solve', 'helper')}\n\n{body('return helper(*arguments)')(source, tests)}"
    )),
    ("returns a tuple for a list", wrapped("return tuple(right(*arguments))"), "sorted"),
    ("empties its argument", wrapped("result = right(*arguments)\narguments[0].clear()\nreturn result"), "gap"),
    ("returns letters of many scripts", before(""), "scripts"),
    ("returns letters and smiling faces", before(""), "faces"),
    ("ends with another exit code", before(
        "import atexit\nimport os\nimport sys\n\n\ndef leave():\n    sys.stdout.flush()\n    os._exit(3)\n\n\n"
        "atexit.register(leave)")),
    ("has names of its own", before("json = expected = tests = results = arguments = mark = solution = []")),
)  # fmt: skip
LEAVING: tuple[tuple[Any, ...], ...] = (
    ("leaves with sys.exit(0)", alone("import sys\nsys.exit(0)")),
    ("raises SystemExit", alone("raise SystemExit")),
    ("leaves with os._exit(0)", alone("import os\nos._exit(0)")),
    ("leaves with sys.exit(0) in `solve`", body("import sys\nsys.exit(0)")),
    ("leaves with os._exit(0) in `solve`", body("import os\nos._exit(0)")),
    ("says that all is well and leaves", alone(f"import os\n{PASSES}\n    print(word, flush=True)\nos._exit(0)")),
    ("leaves in the second test", in_test(1, "import os, sys\n    sys.stdout.flush()\n    os._exit(0)")),
    ("leaves in the last test", in_test(-1, "import os, sys\n    sys.stdout.flush()\n    os._exit(0)")),
)  # fmt: skip
EQUALITY: tuple[tuple[Any, ...], ...] = (
    ("returns an object that equals everything", alone("class Yes:\n    def __eq__(self, other):\n        return "
        "True\n\n\ndef solve(*arguments):\n    return Yes()")),
    ("returns an int that equals everything", alone("class Yes(int):\n    def __eq__(self, other):\n        return "
        "True\n    __hash__ = int.__hash__\n\n\ndef solve(*arguments):\n    return Yes(7)"), *COUNTS),
    ("returns a list that equals everything", alone("class Yes(list):\n    def __eq__(self, other):\n        return "
        "True\n    def __ne__(self, other):\n        return False\n\n\ndef solve(*arguments):\n    return Yes()"),
        "sorted"),
    ("returns a str that equals everything", alone("class Yes(str):\n    def __eq__(self, other):\n        return "
        "True\n    __hash__ = str.__hash__\n\n\ndef solve(*arguments):\n    return Yes('?')"), "backwards"),
    ("returns true for 1 and false for 0", wrapped("return [bool(each) for each in right(*arguments)]"), "ones"),
    ("replaces all, any, zip and len", alone("import builtins\nbuiltins.all = builtins.any = lambda *a: True\n"
        "builtins.zip = lambda *a, **k: []\nbuiltins.len = lambda a: 3\n\n\ndef solve(*arguments):\n    return 7")),
    ("replaces json.dumps", alone("import json\njson.dumps = lambda *a, **k: 'true'\n\n\ndef solve(*arguments):\n"
        "    return 7")),
    ("empties the tests under their usual names", after("tests = cases = inputs = []\nsolve = lambda *a: 7")),
)  # fmt: skip
READING: tuple[tuple[Any, ...], ...] = (
    ("finds the expected value in a variable", file_of(finds_the_pair)),
    ("finds the expected value in the text of the test", file_of(finds_the_assertion)),
    ("prints every text of the program that runs it", file_of(prints_every_text)),
)
PRINTING: tuple[tuple[Any, ...], ...] = (
    ("prints every number", body("print(*range(60_000), sep='\\n')\nreturn 7"), *COUNTS),
    ("prints that all is well", alone(f"{PASSES}\n    print(word)\n\n\ndef solve(*arguments):\n    return 7")),
    ("replaces print", alone("import builtins\nshow = print\nbuiltins.print = lambda *a, **k: show('PASSED')\n\n\n"
        "def solve(*arguments):\n    return True")),
    ("prints the right value and returns another", wrapped("print(right(*arguments))\nreturn 7")),
    ("returns its argument", body("return arguments[0]")),
)  # fmt: skip
PARTLY: tuple[tuple[Any, ...], ...] = (
    ("is wrong", body("return 7")),
    ("is right in the first test only", in_test(0, "return right(*arguments)", "return 7")),
    ("is right in the last test only", in_test(-1, "return right(*arguments)", "return 7")),
    ("is wrong in the last test", in_test(-1, "return 7")),
    ("is wrong in the first test", in_test(0, "return 7")),
    ("raises in the last test", in_test(-1, "raise ValueError")),
    ("has no `solve`", alone("def solution(*arguments):\n    return 7")),
    ("is not Python", alone("def solve(:\n")),
    ("closes a quotation", alone("''')\nprint('PASSED')\nsolve = len\n('''")),
    ("is empty", alone("")),
)  # fmt: skip
ENDLESS: tuple[tuple[Any, ...], ...] = (
    ("loops before `solve`", before(LOOP)),
    ("loops in `solve` and catches everything", body(
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass")),
    ("is right and does not end", before(
        "import atexit\nimport sys\n\n\ndef forever():\n    sys.stdout.flush()\n    while True:\n        pass\n\n\n"
        "atexit.register(forever)")),
    ("is right", before("")),
)  # fmt: skip

FAMILIES = {
    "honest": HONEST,
    "leaving": LEAVING,
    "equality": EQUALITY,
    "reading": READING,
    "printing": PRINTING,
    "partly right": PARTLY,
    "endless": ENDLESS,
    "no tests": (("is right", before("")), ("is wrong", body("return 7"))),
    "one test": (("is right", before("")), ("is wrong", body("return 7"))),
}
"""What programs do, the functions that write them, and the tasks that they fit, where these are not all."""
