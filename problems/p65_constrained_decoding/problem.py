"""Problem 65: constrained decoding, by an automaton over bytes and masks over tokens."""

import ast
from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import exact, output
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

AUTOMATON, TOKENS, ODDS, TEXT = "build_automaton", "token_transitions", "constrained_probabilities", "constrained_text"
DIGIT, LETTERS = ("byte", b"0123456789"), b"abc"
TEXTS = 40  # of a case


def word(text: bytes) -> Any:
    """The expression that matches one text."""
    return ("then", *(("byte", bytes([byte])) for byte in text))


A, B, AB = ("byte", b"a"), ("byte", b"b"), ("byte", b"ab")
PLAIN = (
    ("then", A, ("byte", b"bc"), ("byte", b"c")),
    ("or", word(b"ca"), *(word(letter.encode()) for letter in ("é", "è", "語", "🐈", "🐉"))),
    ("then", ("or", word(b"ab"), ("then",)), ("or", B, ("then",)), ("byte", b"c")),
    ("then",),
)
REPEATED = (
    ("then", A, ("many", B), ("byte", b"c")),
    ("then", A, ("many", B), ("many", ("byte", b"c")), ("byte", b"1")),
    ("then", DIGIT, ("many", DIGIT), ("or", ("then",), ("then", ("byte", b"."), DIGIT, ("many", DIGIT)))),
    ("many", ("then", A, ("many", B))),
    ("many", ("or", ("then",), A, ("many", ("then", ("many", B), ("or", ("byte", b"c"), ("then",)))))),
    ("then", ("many", ("byte", bytes(range(256)))), A),
)
# Where several parts could have read the last byte, an automaton has to remember all of them.
UNDECIDED = (
    ("then", ("many", AB), A, AB),
    ("or", ("then", ("many", A), B), ("then", A, ("many", B), ("byte", b"c"))),
    ("many", ("or", word(b"ab"), A, word(b"abc"))),
)
EXPRESSIONS = {"plain": PLAIN, "repeated": REPEATED, "undecided": UNDECIDED}


def random_expression(depth: int, rng: Any) -> Any:
    """A random expression over a few letters."""
    kind = rng.choice(["byte", "then", "or", "many"]) if depth else "byte"
    if kind == "byte":
        chosen = rng.permutation(list(LETTERS))[: rng.integers(1, 3)]
        return ("byte", bytes(sorted(chosen.tolist())))
    count = 1 if kind == "many" else int(rng.integers(2, 4))
    return (str(kind), *(random_expression(depth - 1, rng) for _ in range(count)))


def matched(expression: Any, rng: Any) -> bytes:
    """A random text that an expression matches."""
    kind, *parts = expression
    if kind == "byte":
        return bytes([parts[0][rng.integers(len(parts[0]))]])
    if kind == "or":
        return matched(parts[rng.integers(len(parts))], rng)
    if kind == "many":
        parts = parts * int(rng.integers(0, 4))
    return b"".join(matched(part, rng) for part in parts)


def expressions(group: str, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """An expression, texts that it matches, and texts that are nearly so."""
    expression = EXPRESSIONS[group][sizes["kind"]] if group in EXPRESSIONS else random_expression(sizes["depth"], rng)
    texts = {b""}
    for _ in range(400):
        text = matched(expression, rng)[:12]
        texts.add(text)
        place = int(rng.integers(len(text) + 1))
        more = bytes([rng.choice(list(b"abc.1"))])
        texts.add([text[:place], text + text[place:], text[:place] + more + text[place:]][rng.integers(3)])
        if len(texts) >= TEXTS:
            break
    return {"expression": repr(expression), "texts": repr(sorted(texts, key=lambda text: (len(text), text)))}


def table(rows: Any, accepting: Any) -> dict[str, Any]:
    """The arrays of an automaton. Each row maps bytes to the next state."""
    import numpy as np

    transitions = np.full((len(rows), 256), -1, np.int32)
    for state, row in enumerate(rows):
        for letters, following in row.items():
            transitions[state, list(letters)] = following
    return {"transitions": transitions, "accepting": np.isin(np.arange(len(rows)), accepting)}


DIGITS = b"0123456789"


def readable(values: Mapping[str, Any]) -> dict[str, Any]:
    """An automaton as its arrows, one for each pair of states."""
    arrows: dict[tuple[int, int], list[int]] = {}
    for state, row in enumerate(values["transitions"].tolist()):
        for byte, following in enumerate(row):
            if following >= 0:
                arrows.setdefault((state, following), []).append(byte)
    text = ", ".join(f"{start} {bytes(letters)!r} {end}" for (start, end), letters in arrows.items())
    return {**values, "transitions": text}


def logits_shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a text, with words for what the logits are made of."""
    inputs = {name: values[name] for name in ("next_states", "end_id", "max_tokens")}
    return {**inputs, "parts of the logits: after each token, and last at the start": values["after"]}


def numbers(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Numbers such as 12.5, and tokens of one or more bytes, two of them equal, one of none, and an end token whose
    text is a number."""
    values = table(({DIGITS: 1}, {DIGITS: 1, b".": 2}, {DIGITS: 3}, {DIGITS: 3}), [1, 3])
    tokens = [
        b"1",
        b"7",
        b".",
        b"12",
        b"12",
        b"1.",
        b".5",
        b"2.5",
        b"..",
        b"1.2.3",
        b" 1",
        b"",
        b"x",
        b"3x",
        b"0.07",
        b"1\xe2\x82",
    ]
    return {**values, **_vocabulary(tokens[: sizes["V"]], b"42", rng)}


def dead_ends(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """`yes!`, `no!` and a word that never ends, and a vocabulary without the tokens that finish `y` and `ww`."""
    rows: tuple[dict[bytes, int], ...] = (
        {b"y": 1, b"n": 3, b"z": 5, b"w": 8}, {b"e": 2}, {b"s": 4}, {b"o": 4}, {b"!": 7}, {b"z": 6}, {b"z": 5}, {},
        {b"w": 9}, {b"q": 7},
    )  # fmt: skip
    values = table(rows, [7])
    tokens = [b"y", b"ye", b"n", b"no", b"s", b"z", b"zz", b"o", b"!", b"w"]
    return {**values, **_vocabulary(tokens[: sizes["V"]], b"<end>", rng)}


def one_of_each(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The automaton of the empty text, and a vocabulary that has only the end token."""
    return {**table(({},) * sizes["S"], [0]), **_vocabulary([], b"<end>", rng)}


def long_way(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A chain of states with the end after the last. From its side branches no end is reached, or only in a circle."""
    S = sizes["S"]
    rows: list[dict[bytes, int]] = [{b"a": state + 1} for state in range(S - 1)]
    for state in range(1, S - 1, 40):
        rows[state][b"b"] = len(rows) + 1
        rows[state - 1][b"c"] = S - 1
    rows.append({})
    side = len(rows)
    for state in range(1, S - 1, 40):
        rows[state][b"b"] = side
    rows += [{b"a": side + place + 1, b"b": side} for place in range(9)] + [{}]
    return {**table(rows, [S - 1]), **_vocabulary([b"a", b"b", b"aab"], b"<end>", rng)}


def random_automaton(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Random transitions over two letters, one of them beyond ASCII, of which many lead nowhere, and random tokens."""
    import numpy as np

    S = sizes["S"]
    following = np.where(rng.random((S, 2)) < 0.65, rng.integers(0, S, (S, 2)), -1)
    values = table([{b"a": row[0], b"\xe9": row[1]} for row in following], rng.permutation(S)[:2])
    tokens = {bytes(rng.choice(list(b"a\xe9"), rng.integers(1, 4)).tolist()) for _ in range(sizes["V"])}
    return {**values, **_vocabulary(sorted(tokens), b"a\xe9", rng)}


def _vocabulary(tokens: list[bytes], end: bytes, rng: Any) -> dict[str, Any]:
    order = rng.permutation(len(tokens) + 1)
    shuffled = [[*tokens, end][place] for place in order]
    return {"vocabulary": repr(shuffled), "end_id": int(order.tolist().index(len(tokens)))}


def allowed(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits, and the row of a state in which some tokens lead to state 0."""
    import numpy as np

    V = sizes["V"]
    row = np.where(rng.random(V) < 0.5, rng.integers(0, 3, V), -1)
    row[rng.permutation(V)[:3]] = [0, 2, -1][:V]
    return {"logits": (2 * rng.standard_normal(V)).astype("float32"), "row": row.astype("int32")}


def improbable(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits of allowed tokens that are far below those of the others."""
    values = allowed(sizes, rng)
    values["logits"] += (values["row"] < 0) * 300 - (values["row"] >= 0) * 70_000
    return values


def texts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A table of next states, and the logits after each token. The end token is allowed in the first state and the
    last, and likely in the last only."""
    import numpy as np

    S, V = sizes["S"], sizes["V"]
    allowed = rng.random((S, V)) < 0.5
    allowed[np.arange(S), rng.integers(0, V - 1, S)] = True
    following = np.minimum(np.arange(S) + 1, S - 1)
    next_states = np.where(allowed, following[:, None], -1)
    next_states[0, :2] = [0, -1]  # the first token may come again
    next_states[:, V - 1] = [0, *[-1] * (S - 2), S - 1]
    after = rng.standard_normal((V + 1, V))
    after[:, V - 1] += 5
    after[0, [0, V - 1]] = -9, -20  # after itself, any other one is likelier
    after[V, [0, V - 1]] = 4, -4
    if "low" in sizes:  # below the lowest number of float16, and far below that of a token that is not allowed
        next_states[:, 1], next_states[: S - 1, 2] = -1, np.arange(1, S)
        after[:, 1] += 500
        after -= sizes["low"]
    return {
        "next_states": next_states.astype("int32"),
        "after": after.astype("float32"),
        "end_id": V - 1,
        "max_tokens": sizes["n"],
    }


def text_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a text of a case that an automaton reads wrongly."""
    if "accepted" not in difference.path and "read" not in difference.path:
        return ""
    text = ast.literal_eval(str(case.values["texts"]))[difference.index[0]]
    if "accepted" in difference.path:
        got, expected = ("accepted" if each == "1" else "rejected" for each in (difference.got, difference.expected))
        return f"the text {text!r} is {got}; it must be {expected}"
    return f"of {text!r}, {difference.got} bytes are read before a transition is -1, expected {difference.expected}"


def token_in_words(case: Case, difference: Difference) -> str:
    """A sentence on a token of a case."""
    state, token = difference.index
    text = ast.literal_eval(str(case.values["vocabulary"]))[token]
    name = "the end token" if token == case.values["end_id"] else f"token {text!r}"
    got, expected = (
        f"leads to state {each}" if each != "-1" else "is not allowed" for each in (difference.got, difference.expected)
    )
    return f"in state {state}, {name} {got}; expected: it {expected}"


# In float32, the logarithm of a sum of exponentials near -70,000 is rounded by up to 0.004, and so are the
# probabilities.
LOW = Tolerance(rtol=0.02, atol=0.02)


def automaton(name: str, points: int, cases: str, **more: Any) -> Check:
    return exact(name, points, "reading", "texts", cases=cases, in_words=text_in_words, **more)


def tokens(name: str, points: int, cases: str) -> Check:
    return exact(name, points, "transitions", "next", cases=cases, in_words=token_in_words)


PROBLEM = Problem(
    title="Constrained decoding",
    minutes=200,
    builds_on=(29, 42),
    entries=(
        Entry(AUTOMATON, ("expression",), returns=("transitions", "accepting")),
        Entry(TOKENS, ("transitions", "accepting", "vocabulary", "end_id")),
        Entry(ODDS, ("logits", "row")),
        Entry(TEXT, ("next_logits", "next_states", "end_id", "max_tokens")),
    ),
    cases={
        "plain": Cases(partial(expressions, "plain"), {"kind": (0, 1, 2, 3)}, draws=4),
        "repeated": Cases(partial(expressions, "repeated"), {"kind": (0, 1, 2, 3, 4, 5)}, draws=6),
        "undecided": Cases(partial(expressions, "undecided"), {"kind": (0, 1, 2)}, draws=3),
        "random": Cases(partial(expressions, "random"), {"depth": (2, 3)}, draws=4),
        "numbers": Cases(numbers, {"V": (16,)}, draws=1, show=readable),
        "dead ends": Cases(dead_ends, {"V": (10,)}, draws=1, show=readable),
        "one of each": Cases(one_of_each, {"S": (1,)}, draws=1, show=readable, covers=("one",)),
        "long way": Cases(long_way, {"S": (300,)}, draws=1, show=readable),
        "random automata": Cases(random_automaton, {"S": (5, 7), "V": (6, 9)}, draws=3, show=readable),
        "allowed": Cases(allowed, {"V": (7, 9)}, draws=2),
        "improbable": Cases(improbable, {"V": (7,)}, draws=1),
        "vocabulary": Cases(allowed, {"V": (50_257,)}, draws=1, covers=("vocabulary",)),
        "texts": Cases(texts, {"S": (5, 4), "V": (11, 8), "n": (31,)}, draws=2, show=logits_shown, covers=("coprime",)),
        "low": Cases(texts, {"S": (4,), "V": (7,), "n": (30,), "low": (70_000,)}, draws=1, show=logits_shown),
        "cut": Cases(texts, {"S": (4,), "V": (7,), "n": (1,)}, draws=1, show=logits_shown),
    },
    without={"text": "a text is bytes here, and the expressions have characters of two, three and four of them"},
    checks=(
        automaton("bytes, rows and alternatives", 2, "plain"),
        automaton("repetition", 2, "repeated"),
        automaton("several ways to read a byte", 1, "undecided"),
        automaton("random expressions", 1, "random"),
        tokens("tokens of several bytes", 2, "numbers"),
        tokens("dead ends", 1, "dead ends"),
        tokens("a long way to the end", 1, "long way"),
        tokens("one state and one token", 1, "one of each"),
        tokens("random automata", 1, "random automata"),
        output(ODDS, points=1, name="probabilities", cases="allowed"),
        output(ODDS, points=1, name="probabilities of 50,257 tokens", cases="vocabulary"),
        output(ODDS, points=1, name="improbable tokens", cases="improbable", tolerance=LOW),
        exact("text", 1, "texts", "text", cases="texts"),
        exact("text of low logits", 1, "texts", "text", cases="low"),
        exact("text that is cut", 1, "texts", "text", cases="cut"),
    ),
)
