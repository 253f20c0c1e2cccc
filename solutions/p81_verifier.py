"""Problem 81, reference: a verifier."""

import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

Test = tuple[list[Any], Any]
Run = Callable[[str, float], tuple[int | None, str]]

LONGEST = 1000  # characters of a number
SEPARATORS = ",\u00a0\u2009\u202f"
WHOLE = rf"\d{{1,3}}(?:(?P<mark>[{SEPARATORS}])\d{{3}}(?:(?P=mark)\d{{3}})*)|\d+"
NUMBER = re.compile(
    rf"""(?P<sign>[-+\u2212]?)
    (?:\\d?frac\{{(?P<over>\d+)\}}\{{(?P<under>\d+)\}}
      |(?P<whole>{WHOLE})/(?P<divisor>\d+)
      |(?P<units>{WHOLE.replace("mark", "comma")})?(?:\.(?P<decimals>\d+))?(?:[eE](?P<exponent>[-+]?\d{{1,3}}))?)""",
    re.VERBOSE,
)

BOX = re.compile(r"\\boxed\{")


def whole(text: str | None) -> int:
    """The value of digits with separators; 0 for none."""
    return int(re.sub(f"[{SEPARATORS}]", "", text or "0"))


def number(text: str) -> Fraction | None:
    """The exact value of a text that is one number and nothing else; None for all other texts."""
    text = text.strip().removesuffix(".")
    found = NUMBER.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    if over := found["over"] or found["whole"]:
        under = whole(found["under"] or found["divisor"])
        if under == 0:
            return None
        value = Fraction(whole(over), under)
    elif found["units"] or found["decimals"]:
        decimals = found["decimals"] or ""
        value = Fraction(whole(found["units"])) + Fraction(whole(decimals), 10 ** len(decimals))
        value *= Fraction(10) ** int(found["exponent"] or 0)
    else:
        return None
    return -value if found["sign"] in ("-", "\u2212") else value


def boxes(text: str) -> Iterator[str]:
    """What stands in each box of a text, up to the brace that closes it. A box in a box is a part of it."""
    opened = BOX.search(text)
    while opened:
        depth = 1
        for place in range(opened.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                yield text[opened.end() : place]
                break
        else:
            yield ""  # never closed
            return
        opened = BOX.search(text, place)  # behind the box: from each brace to the end, the time would be a square


def verify(answer: str, truth: str) -> bool:
    """Whether all that the answer gives is one number, and it is the truth."""
    expected = number(truth)
    return expected is not None and {number(each) for each in list(boxes(answer)) or [answer]} == {expected}


# The expected values stay here: what is not in the process cannot be found there.
HARNESS = """
import json
solution = {{"__name__": "solution"}}
exec({code!r}, solution)
for arguments in json.loads({arguments!r}):
    print("\\n" + {mark!r} + json.dumps(solution["solve"](*arguments)))
"""


def run_tests(code: str, tests: Sequence[Test], seconds: float, run: Run) -> bool:
    """Whether a program returns what each test expects, decided outside of its process."""
    mark = secrets.token_hex(16)  # no line that a program prints begins with it by chance
    arguments = json.dumps([arguments for arguments, _ in tests])
    exit_code, output = run(HARNESS.format(code=code, arguments=arguments, mark=mark), seconds)
    results = [line.removeprefix(mark) for line in output.split("\n") if line.startswith(mark)]
    expected = [json.dumps(each) for _, each in tests]
    return bool(tests) and exit_code is not None and results == expected
