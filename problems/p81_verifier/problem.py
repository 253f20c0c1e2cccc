"""Problem 81: a verifier of answers and of programs, graded by honest work and by tricks."""

import ast
from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem
from problems.p81_verifier.programs import ANY, FAMILIES, TASKS, expected

VERIFY, RUN_TESTS = "verify", "run_tests"
SECONDS = {"endless": 0.1}  # of computing for each program, by group
AMPLE = 0.2  # in the other groups
MANY = 3000  # boxes in boxes: searched to the end of the text from each, they take more than two seconds

# Answers, each with the truth that it is compared with.
ANSWERS: dict[str, tuple[tuple[str, str], ...]] = {
    "values": (
        ("42", "42"), (" 42.\n", "42"), ("42.0", "42"), ("042", "42"), ("0.5", "1/2"), ("2/4", "0.5"), ("-0", "0"),
        ("-0.0", "0/7"), ("+7", "7"), (".5", "0.50"), ("-1/2", "-0.5"), ("1/2", "-0.5"), ("1.5e3", "1500"),
        ("15E-1", "3/2"), ("1e3", "100"), ("0.333", "1/3"), ("0.3333333333333333", "1/3"), ("0." + "3" * 28, "1/3"),
        ("9007199254740993", "9007199254740992"), ("-3", "3"), ("1.2.3", "1.2"), ("--5", "5"), ("5-3", "2"),
    ),
    "longer numbers": (
        ("420", "42"), ("142", "42"), ("4.2", "42"), ("42.5", "42"), ("0.42", "42"), ("-42", "42"), ("1,042", "42"),
        ("42/5", "42"), ("42e1", "42"), ("3.14159", "3.14"), ("0.420", "0.42"), ("7", "17"),
    ),
    "hedges": (
        ("42 or 43", "42"), ("43 or 42", "42"), ("42, 43", "42"), ("43, 42", "42"), ("42,43", "4243"), ("42\n43", "42"),
        ("42 43", "4243"), ("not 42", "42"), ("42 ± 1", "42"), ("about 42", "42"), ("41 < x < 43", "42"),
        ("42 million", "42"), ("42%", "42"), ("42?", "42"), ("6*7", "42"), ("40+2", "42"), ("(42)", "42"),
        ("The answer is 42.", "42"), (" ".join(map(str, range(60))), "42"), ("50", "42"),
    ),
    "Unicode": (
        ("\u221242", "-42"), ("\u22121/2", "-0.5"), ("\uff14\uff12", "42"), ("\u0664\u0662", "42"),
        ("\U0001d7d2\U0001d7d0", "42"), ("\u096a\u0968.\u096b", "42.5"), ("4\u00b2", "42"), ("4\u00b2", "16"),
        ("\u2463\u2461", "42"), ("\u00bd", "1/2"), ("1\u00bd", "11/2"), ("42\u200b", "42"), ("-42", "\u221242"),
        ("語42", "42"),
    ),
    "separators": (
        ("1,234", "1234"), ("1,234,567.5", "1234567.5"), ("1\u202f234", "1234"), ("12\u2009345", "12345"),
        ("1\u00a0234", "1234"), ("1234", "1,234"), ("12,34", "1234"), ("1234,567", "1234567"), ("1,2345", "12345"),
        (",123", "123"), ("1,5", "1.5"), ("1,5", "15"), ("1,234\u202f567", "1234567"), ("1_000", "1000"),
        ("1 234", "1234"), ("1,,234", "1234"), ("0.123,456", "0.123456"), ("-1,000", "-1000"), ("1,000/2", "500"),
        (r"\frac{1,000}{2}", "500"), ("1000/1,000", "1"),
    ),
    "boxes": (
        (r"6 times 7 is \boxed{42}, and 43 would be odd.", "42"), (r"\boxed{\frac{1}{2}}", "0.5"),
        (r"\boxed{-\dfrac{3}{4}}", "-0.75"), (r"\boxed{ 1,234. }", "1234"), (r"\boxed{42} or \boxed{43}", "42"),
        (r"\boxed{43} or \boxed{42}", "42"), (r"\boxed{42}, that is, \boxed{42.0}", "42"), (r"\boxed{42", "42"),
        (r"42, or \boxed{43}", "42"), (r"\boxed{}", "42"), (r"\boxed{42 or 43}", "42"), ("{42}", "42"),
        (r"\boxed{\frac{1}{2}", "0.5"), (r"\frac{10}{4}", "2.5"), (r"\boxed{x} \boxed{42}", "42"),
        (r"\boxed{\frac{1}{0}}", "1"), (r"\boxed{42} or \boxed{43", "42"), (r"\boxed{", "42"),
    ),
    "hostile": (
        ("1/0", "1"), ("0/0", "0"), ("no solution", "no solution"), ("", ""), ("nan", "nan"), ("x", "y"), ("1", "1/0"),
        ("inf", "inf"), ("None", "None"), ("True", "1"), ("0x2A", "42"), ("__import__('os')._exit(0)", "0"),
        ("(" * 200, "42"), ("1,111" * 9 + "x", "1111"), ("42", ""), ("", "0"), ("-", "0"), (".", "0"), ("/", "1"),
        ("42", r"\boxed{42}"), (r"\boxed{42}", r"\boxed{42}"),
    ),
    "long": (
        ("0e1000", "0"), ("0e0999", "0"), ("0e999", "0"), ("1e-999", "0"), ("1e99999", "1"), ("0" * 1500 + "7", "7"),
        ("0" * 900 + "7", "7"), ("0" * 999 + "7", "7"), ("0" * 1000 + "7", "7"),
        ("\t" * 1500 + "7", "7"), ("7." + "\n" * 1500, "7"), ("1" * 40 + "2", "1" * 40 + "3"),
        ("0." + "1" * 40 + "2", "0." + "1" * 40 + "3"), ("1" * 40 + ".5", "1" * 40),
        ("1" * 40 + ".5", "1" * 40 + ".50"),
    ),
    "very long": (("9" * 5000, "42"), ("1/" + "9" * 5000, "42"), ("42", "9" * 5000)),
    "many boxes": (
        (r"\boxed{42} " * 1000, "42"), (r"\boxed{" * MANY, "42"), (r"\boxed{" * MANY + "42" + "}" * MANY, "42"),
    ),
}  # fmt: skip


def answers(group: str, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The answers of a group with their truths, in a random order."""
    pairs = ANSWERS[group]
    return {"pairs": repr([pairs[place] for place in rng.permutation(len(pairs))])}


def written(over: int, under: int, rng: Any) -> str:
    """The number `over / under`, where `under` divides 1,000, in one of the forms of the page."""
    sign = ["", "-", "\u2212"][(over < 0) * int(rng.integers(1, 3))]
    whole, rest = divmod(abs(over), under)
    grouped = [f"{whole}", f"{whole:,}", f"{whole:,}".replace(",", "\u202f")][rng.integers(3)]
    decimals = f".{rest * 1000 // under:03}" + "0" * int(rng.integers(3))
    factor = int(rng.integers(1, 4))
    return (
        sign
        + [
            grouped + decimals,
            f"{abs(over) * factor}/{under * factor}",
            rf"\frac{{{abs(over)}}}{{{under}}}",
            f"{abs(over) * (1000 // under)}e-3",
        ][rng.integers(4)]
    )


def random_answers(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Random numbers in random forms, and truths that are equal in every second pair, or nearly so."""
    pairs = []
    for place in range(sizes["N"]):
        over, under = int(rng.integers(-9_000_000, 9_000_000)), int(rng.choice([1, 2, 4, 5, 8, 40, 125, 1000]))
        other = over if place % 2 == 0 else [-over, over + 1, over * 10, over // 10][rng.integers(4)]
        answer, truth = written(over, under, rng), written(other, under, rng)
        pairs.append(([answer, f"It is \\boxed{{{answer}}}."][rng.integers(2)], truth))
    return {"pairs": repr(pairs)}


def programs(group: str, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The programs of a group, each with what it does, for a random task and its tests."""
    chosen = []
    for name, make, *fitting in FAMILIES[group]:
        task = str(rng.choice(fitting or ANY))
        tests = drawn_tests(task, sizes["tests"], rng)
        chosen.append((name, make(TASKS[task].source, tests), tests))
    return {"programs": repr(chosen), "seconds": SECONDS.get(group, AMPLE)}


def drawn_tests(task: str, count: int, rng: Any) -> list[tuple[list[Any], Any]]:
    """Tests of a task: lists of arguments, all different, and what the right program returns for each."""
    found: dict[str, tuple[list[Any], Any]] = {}
    while len(found) < count:
        arguments = TASKS[task].draw(rng)
        found[repr(arguments)] = (arguments, expected(task, arguments))
    return list(found.values())


def answer_in_words(case: Case, difference: Difference) -> str:
    """A sentence on an answer that is judged wrongly."""
    if not difference.index:
        return ""
    answer, truth = ast.literal_eval(str(case.values["pairs"]))[difference.index[0]]
    if difference.path.endswith("late"):
        return f"`verify({_short(answer)}, {_short(truth)})` took more than a second of computing"
    got, right = ("True" if each == "1" else "False" for each in (difference.got, difference.expected))
    return f"`verify({_short(answer)}, {_short(truth)})` is {got}; it must be {right}"


def program_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a program that is judged wrongly."""
    if not difference.index:
        return ""
    name, code, _ = ast.literal_eval(str(case.values["programs"]))[difference.index[0]]
    if difference.path.endswith("late"):
        return f"for the program that {name}, runs that did not end took more than `seconds` in all"
    got, right = ("True" if each == "1" else "False" for each in (difference.got, difference.expected))
    return f"`run_tests` is {got} for the program that {name}; it must be {right}. The program: {_short(code, 600)}"


def _short(text: str, most: int = 70) -> str:
    return repr(text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)")


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the programs do, without their text."""
    names = [name for name, _, _ in ast.literal_eval(str(values["programs"]))]
    return {"programs": "; ".join(f"one that {name}" for name in names), "seconds": values["seconds"]}


def answer_check(name: str, points: int, cases: str) -> Check:
    return exact(name, points, "verifying", "answers", cases=cases, in_words=answer_in_words, calls=(VERIFY,))


def program_check(name: str, points: int, cases: str) -> Check:
    return exact(name, points, "judging", "programs", cases=cases, in_words=program_in_words, calls=(RUN_TESTS,))


def program_cases(group: str, tests: int = 3, **more: Any) -> Cases:
    return Cases(partial(programs, group), {"tests": (tests,)}, draws=1, show=shown, **more)


PROBLEM = Problem(
    title="A verifier",
    minutes=150,
    builds_on=(51,),
    entries=(Entry(VERIFY, ("answer", "truth")), Entry(RUN_TESTS, ("code", "tests", "seconds", "run"))),
    cases={
        **{
            group: Cases(partial(answers, group), {"N": (len(pairs),)}, draws=1,
                         covers=("text",) if group == "Unicode" else ())
            for group, pairs in ANSWERS.items()
        },
        "random answers": Cases(random_answers, {"N": (40,)}, draws=2),
        "honest": program_cases("honest"),
        "leaving": program_cases("leaving"),
        "equality": program_cases("equality"),
        "reading": program_cases("reading"),
        "printing": program_cases("printing"),
        "partly right": program_cases("partly right"),
        "endless": program_cases("endless"),
        "no tests": program_cases("no tests", tests=0),
        "one test": program_cases("one test", tests=1, covers=("one",)),
    },
    checks=(
        answer_check("equal values", 2, "values"),
        answer_check("a truth inside a longer number", 1, "longer numbers"),
        answer_check("more than one answer", 2, "hedges"),
        answer_check("digits and signs of Unicode", 1, "Unicode"),
        answer_check("thousands separators", 1, "separators"),
        answer_check("boxes", 2, "boxes"),
        answer_check("texts that are not numbers", 1, "hostile"),
        answer_check("long numbers and exponents", 1, "long"),
        answer_check("very long numbers", 1, "very long"),
        answer_check("many boxes", 1, "many boxes"),
        answer_check("random numbers", 1, "random answers"),
        program_check("honest programs", 2, "honest"),
        program_check("programs that leave early", 2, "leaving"),
        program_check("programs that change equality", 1, "equality"),
        program_check("programs that read the tests", 1, "reading"),
        program_check("programs that print answers", 1, "printing"),
        program_check("programs that pass some tests", 1, "partly right"),
        program_check("programs without end", 2, "endless"),
        program_check("no tests", 1, "no tests"),
        program_check("one test", 1, "one test"),
    ),
)  # fmt: skip
