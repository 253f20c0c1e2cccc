"""Forms one after another with the decimal module, a list of results as one line of JSON, written to a descriptor."""

import json
import re
import uuid
from decimal import Decimal, localcontext
from fractions import Fraction

SIGN, SEPARATED = r"([+\-−]?)", "\\d{1,3}(?:(?:,\\d{3})+|(?:\u00a0\\d{3})+|(?:\u2009\\d{3})+|(?:\u202f\\d{3})+)|\\d+"
FORMS = [
    (rf"{SIGN}({SEPARATED})/(\d+)", "ratio"),
    (rf"{SIGN}\\d?frac{{(\d+)}}{{(\d+)}}", "ratio"),
    (rf"{SIGN}((?:{SEPARATED})(?:\.\d+)?|\.\d+)(?:[eE]([+-]?\d{{1,3}}))?", "decimal"),
]


def parsed(text):
    text = re.sub(r"\.$", "", text.strip())
    if len(text) > 1000:
        return "too long"
    for form, kind in FORMS:
        match = re.fullmatch(form, text)
        if match:
            sign, first, second = match.groups()
            first = re.sub("[,\u00a0\u2009\u202f]", "", first)
            with localcontext() as context:
                context.prec = 3000
                value = Fraction(Decimal(first))
            if kind == "ratio":
                if int(second) == 0:
                    return "not a number"
                value /= int(second)
            elif second:
                value *= Fraction(10) ** int(second)
            return value if sign in ("", "+") else -value
    return "not a number"


def contents(text):
    start = text.find("\\boxed{")
    while start >= 0:
        end, depth = start + 7, 1
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield text[start + 7 : end - 1] if not depth else "open"
        start = text.find("\\boxed{", end)


def verify(answer, truth):
    truth = parsed(truth)
    answers = [parsed(each) for each in contents(answer)] or [parsed(answer)]
    if isinstance(truth, str) or any(isinstance(each, str) for each in answers):
        return False
    return min(answers) == max(answers) == truth


TEMPLATE = """
import json, os, sys
def main(given):
    space = {"__name__": given["name"]}
    exec(compile(given["code"], "candidate.py", "exec"), space)
    return [space["solve"](*arguments) for arguments in given["arguments"]]
given = json.loads(%r)
line = json.dumps(main(given))
sys.stdout.flush()
os.write(1, ("\\n<" + given["name"] + ">" + line + "</" + given["name"] + ">\\n").encode())
"""


def run_tests(code, tests, seconds, run):
    if not tests:
        return False
    name = "s" + uuid.uuid4().hex
    given = json.dumps({"name": name, "code": code, "arguments": [list(arguments) for arguments, _ in tests]})
    exit_code, output = run(TEMPLATE % given, seconds)
    found = re.findall(rf"^<{name}>(.*)</{name}>$", output, re.MULTILINE)
    if exit_code is None or len(found) != 1:
        return False
    try:
        return json.dumps(json.loads(found[0])) == json.dumps([expected for _, expected in tests])
    except (ValueError, RecursionError):
        return False
