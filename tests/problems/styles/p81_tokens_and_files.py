"""A tokenizer that walks once over the letters, results in hexadecimal, and a generator for the text of the process."""

import json
import unicodedata
from fractions import Fraction

SPACES = "\u00a0\u2009\u202f"


class Scanner:
    """Reads a number from the left. Raises ValueError where there is none."""

    def __init__(self, text):
        self.text, self.place = text, 0

    def take(self, options):
        for option in options:
            if self.text.startswith(option, self.place):
                self.place += len(option)
                return option
        return ""

    def digits(self):
        start = self.place
        while self.place < len(self.text) and unicodedata.category(self.text[self.place]) == "Nd":
            self.place += 1
        if start == self.place:
            raise ValueError("no digits")
        return "".join(str(unicodedata.decimal(letter)) for letter in self.text[start : self.place])

    def whole(self):
        found = self.digits()
        gap = self.text[self.place : self.place + 1]
        if gap and gap in "," + SPACES:
            if len(found) > 3:
                raise ValueError("too many digits before a separator")
            while self.take([gap]):
                group = self.digits()
                if len(group) != 3:
                    raise ValueError("not three digits")
                found += group
        return int(found)

    def expect(self, text):
        if not self.take([text]):
            raise ValueError(f"no {text}")

    def value(self):
        sign = self.take(["-", "\u2212", "+"])
        size = self.size()
        if self.place < len(self.text):
            raise ValueError("something follows")
        return -size if sign and sign != "+" else size

    def size(self):
        if self.take(["\\frac{", "\\dfrac{"]):
            over = int(self.digits())
            self.expect("}{")
            under = int(self.digits())
            self.expect("}")
            return Fraction(over, under)
        units = None if self.text.startswith(".", self.place) else self.whole()
        if units is not None and self.take(["/"]):
            return Fraction(units, int(self.digits()))
        value = Fraction(units or 0)
        if self.take(["."]):
            decimals = self.digits()
            value += Fraction(int(decimals), 10 ** len(decimals))
        if self.take(["e", "E"]):
            down = self.take(["-", "+"]) == "-"
            power = self.digits()
            if len(power) > 3:
                raise ValueError("too large")
            value = value / 10 ** int(power) if down else value * 10 ** int(power)
        return value


def read(text):
    text = text.strip()
    text = text[:-1] if text.endswith(".") else text
    try:
        return Scanner(text).value() if len(text) <= 1000 else None
    except (ValueError, ZeroDivisionError):
        return None


def parts(answer):
    opening = "\\boxed{"
    stack, found, place = [], [], 0
    while place < len(answer):
        if answer.startswith(opening, place):
            place += len(opening)
            stack.append(place)
            continue
        if answer[place] == "{":
            stack.append(None)
        elif answer[place] == "}" and stack:
            start = stack.pop()
            if start is not None:
                found.append(answer[start:place])
        place += 1
    return found + ["unclosed" for start in stack if start is not None] if opening in answer else [answer]


def verify(answer, truth):
    right = read(truth)
    for part in parts(answer):
        value = read(part)
        if value is None or right is None or value != right:
            return False
    return True


def lines(code, inputs):
    yield "import json, types"
    yield "module = types.ModuleType('candidate')"
    yield f"exec(bytes.fromhex('{code.encode('utf-8', 'surrogatepass').hex()}'), vars(module))"
    yield "show = print"
    for place, arguments in enumerate(inputs):
        yield f"result = json.dumps(module.solve(*{arguments!r}))"
        yield f"show(chr(10) + 'result', {place}, result.encode().hex(), 'end')"


def run_tests(code, tests, seconds, run):
    exit_code, output = run("\n".join(lines(code, [arguments for arguments, _ in tests])), seconds)
    wanted = [f"result {place} {json.dumps(right).encode().hex()} end" for place, (_, right) in enumerate(tests)]
    said = [line for line in output.splitlines() if line.startswith("result ")]
    return exit_code is not None and said == wanted and len(said) > 0
