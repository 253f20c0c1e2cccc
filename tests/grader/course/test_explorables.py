"""Explorables: the numbers of the script against the references, and the pages that have one."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.course import catalog, page
from tests.conftest import ROOT
from tests.studio.conftest import missing

# Reads a list of [kind, values]. A value is a number, or the text that its slider shows.
DRIVER = """
const { KINDS, read } = require(process.argv[1]);
const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map(([name, values]) => {
  const [, settings] = read(name);
  KINDS[name].sliders.slice(0, values.length).forEach(({ name, least, most, step, shown }, i) => {
    const all = Array.from({ length: Math.round((most - least) / step) + 1 },
        (_, n) => Number((least + n * step).toFixed(6)));
    settings[name] = all.find((value) => value === values[i] || shown(value) === values[i]);
    if (settings[name] === undefined) throw new Error(`${name} cannot be ${values[i]}`);
  });
  return { ...KINDS[name].show(settings), sliders: KINDS[name].sliders.map(({ name }) => name) };
})));
"""
NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
PAGES = {
    match[1]: problem
    for problem in catalog.problems()
    if (match := re.search(r"^<!-- explorable: (\S+) -->$", catalog.page_text(problem), re.MULTILINE))
}
LABELS = {
    "attention": "02", "heads": "03", "shift": "07", "moments": "09", "schedule": "10",
    "scan": "17", "shards": "22", "sampling": "29", "rotation": "37", "blocks": "43",
}  # fmt: skip


def ask(*asked: tuple[str, list[Any]]) -> list[dict[str, Any]]:
    """What the kinds show at these values; at their starts if there are no values."""
    node = shutil.which("node")
    if node is None:
        missing("node is not installed")
    command = [node, "-e", DRIVER, str(page.EXPLORABLES[0])]
    run = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    shown: list[dict[str, Any]] = json.loads(run.stdout)
    return shown


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attention(numbers: dict[str, Any], divisor: float, k: int) -> None:
    from p02_causal_attention import causal_attention

    scores = np.array([[3.0, 5, -2, 1], [4, -1, 6, 2], [-3, 5, 2, 7], [2, 6, 1, 3]]) / divisor
    if k == 0:
        right = np.asarray(causal_attention(scores * 2, np.eye(4), np.eye(4)))  # it divides by the root of 4
    else:
        right = softmax(np.where(np.tril(np.ones((4, 4), bool), k), scores, -1e9))
    np.testing.assert_allclose(numbers["weights"], right, atol=1e-6)
    np.testing.assert_allclose(numbers["later"], np.triu(right, 1).sum(), atol=1e-6)


def heads(numbers: dict[str, Any], log_heads: int, way: int) -> None:
    T, D, H = 3, 8, 2**log_heads
    K = D // H
    owners = np.empty((T, D), int)
    for head in range(H):
        places = np.arange(T * D)
        split = [
            places.reshape(T, H, K)[:, head],
            places.reshape(T, K, H)[:, :, head],
            places.reshape(H, T, K)[head],
        ][way]
        owners.flat[split.ravel()] = head
    np.testing.assert_array_equal(numbers["owners"], owners)


def shift(numbers: dict[str, Any], offset: int, padding: int) -> None:
    import jax.numpy as jnp
    from p07_next_token_loss import next_token_loss

    logits, ids = numbers["logits"], numbers["ids"]
    assert ids == [0, 1, 2, 3] + [4] * padding
    if offset == 1:
        right = next_token_loss(jnp.array(logits, jnp.float32), jnp.array(ids), 4)
    else:
        rows = [t for t in range(len(ids)) if 0 <= t + offset < len(ids) and ids[t + offset] != 4]
        right = -np.mean([np.log(softmax(np.array(logits[t]))[ids[t + offset]]) for t in rows])
    counted = sum(ids[t + offset] != 4 for t in range(len(ids)) if 0 <= t + offset < len(ids))
    np.testing.assert_allclose(numbers["loss"], right, rtol=1e-5)
    np.testing.assert_allclose(numbers["diluted"], right * counted / (len(ids) - abs(offset)), rtol=1e-5)


def moments(numbers: dict[str, Any], b1: float, b2: float, size: int) -> None:
    import jax.numpy as jnp
    from p09_adamw import adamw

    adam = adamw(1.0, b1, b2, 0.0, 0.0)
    state, parameter = adam.init(jnp.zeros(())), jnp.zeros(())
    raw = [1.6, -0.4, 1.2, 2.1, -0.9, 0.6, 1.5, 0.2]
    for n, gradient in enumerate(raw, 1):
        update, state = adam.update(jnp.array(gradient * 10.0**size), state, parameter)
        np.testing.assert_allclose(numbers["corrected"][n - 1], -update, rtol=1e-3)
        plain = -update * (1 - b1**n) / np.sqrt(1 - b2**n)
        np.testing.assert_allclose(numbers["plain"][n - 1], plain, rtol=1e-3)


def schedule(numbers: dict[str, Any], warmup: int, decay: int, step: int) -> None:
    from p10_lr_schedule import warmup_cosine

    rate = warmup_cosine(1.0, warmup, decay)
    assert len(numbers["rates"]) == 121
    for n in (0, warmup // 2, warmup, 45, step, 120):
        np.testing.assert_allclose(numbers["rates"][n], rate(n), atol=1e-6)


def scan(numbers: dict[str, Any], layers: int, turn: int, outer: int) -> None:
    import jax
    import jax.numpy as jnp

    factors, terms = jnp.array([1, 2, 1, 3, 1, 2, 1, 1])[:layers], jnp.array([1, 0, -3, 1, 2, 0, 5, -4])[:layers]

    def body(x: jax.Array, layer: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        new = layer[0] * (5 if outer else x) + layer[1]
        return new, new

    assert len(jax.make_jaxpr(body)(1, (1, 1)).eqns) == 2
    xs = jax.lax.scan(body, 5, (factors, terms))[1]
    assert numbers["carry"] == [5, *xs.tolist()][: turn + 1]


def shards(numbers: dict[str, Any], rows: int, columns: int, devices: int) -> None:
    from p22_fsdp import fsdp_spec

    spec = (*fsdp_spec((rows, columns), 2**devices), None, None)
    axis = spec.index("data") if "data" in spec else -1
    assert numbers == {"axis": axis, "bytes": 12 * rows * columns // (1 if axis < 0 else 2**devices)}


def sampling(numbers: dict[str, Any], temperature: float, top_k: int, top_p: float) -> None:
    import jax.numpy as jnp
    from p29_sampling import sampling_distribution

    right = sampling_distribution(jnp.array(numbers["logits"]), temperature, top_k, top_p)
    np.testing.assert_allclose(numbers["odds"], right, atol=1e-6)


def rotation(numbers: dict[str, Any], key: int, distance: int, pair: int) -> None:
    import jax.numpy as jnp
    from p37_rope import rope

    for name, position, (a, b) in (("q", key + distance, (0.9, 0.3)), ("k", key, (0.6, 0.7))):
        x = jnp.zeros((1, 1, 8)).at[0, 0, pair].set(a).at[0, 0, pair + 4].set(b)
        turned = rope(x, jnp.array([position]))[0, 0]
        np.testing.assert_allclose(numbers[name], [turned[pair], turned[pair + 4]], atol=1e-5)
    np.testing.assert_allclose(numbers["score"], np.dot(numbers["q"], numbers["k"]))


def blocks(numbers: dict[str, Any], log_block: int, read: int) -> None:
    import jax.numpy as jnp
    from p02_causal_attention import causal_attention

    size = 2**log_block
    scores, values = np.array([1.0, 3, 2, 0, 5, 4, 2, 6]), np.arange(10.0, 90, 10)
    keys = -(-read // size) * size
    column = jnp.array(scores[:, None])
    output = causal_attention(jnp.ones_like(column), column, jnp.array(values[:, None]))[keys - 1, 0]
    powers = np.exp(scores[:keys] - scores[:keys].max())
    before = scores[: keys - size].max(initial=-np.inf)
    right = [
        keys,
        scores[:keys].max(),
        powers.sum(),
        powers @ values[:keys],
        output,
        np.exp(before - scores[:keys].max()),
    ]
    np.testing.assert_allclose(
        [numbers[name] for name in ("keys", "max", "total", "out", "result", "factor")], right, rtol=1e-5
    )


CASES: list[tuple[Any, list[list[Any]]]] = [
    (attention, [[4, 0], [1, 0], [2.5, 2]]),
    (heads, [[1, 0], [2, 1], [2, 2]]),
    (shift, [[1, 2], [0, 0], [-1, 4]]),
    (moments, [[0.9, 0.999, 0], [0.5, 0.9, 3], [0, 0, -2]]),
    (schedule, [[10, 80, 80], [0, 120, 0], [40, 50, 120]]),
    (scan, [[4, 2, 0], [8, 8, 0], [3, 3, 1]]),
    (shards, [[32, 48, 3], [32, 32, 2], [31, 47, 1]]),
    (sampling, [[1, 0, 0.9], [0.5, 3, 1], [0, 0, 0.5]]),
    (rotation, [[5, 3, 0], [60, 10, 2], [0, 0, 3]]),
    (blocks, [[1, 4], [0, 5], [3, 1]]),
]


def test_the_numbers_are_those_of_the_references(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "solutions"))
    assert [check.__name__ for check, _ in CASES] == list(LABELS)
    asked = [(check, values) for check, settings in CASES for values in settings]
    shown = ask(*((check.__name__, values) for check, values in asked))
    for (check, values), answer in zip(asked, shown, strict=True):
        check(answer["numbers"], *values)


def rows_of_the_table(kind: str) -> list[list[str]]:
    after = catalog.page_text(PAGES[kind]).split(f"<!-- explorable: {kind} -->\n")[1]
    question, table = after.strip().split("\n\n")[:2]
    assert question.endswith("?")
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_the_pages_say_the_numbers_and_show_the_first_picture():
    assert {kind: problem.label for kind, problem in PAGES.items()} == LABELS
    (asked, starts) = (
        [(kind, row) for kind in LABELS for row in rows_of_the_table(kind)],
        [(kind, []) for kind in LABELS],
    )
    shown = ask(*starts)
    for kind, first in zip(LABELS, shown, strict=True):
        still = (PAGES[kind].folder / "explorable.svg").read_text(encoding="utf-8")
        assert still == first["picture"] + "\n", "run `node docs/stills.mjs`"
        assert "style=" not in still, "a strict content security policy forbids it"
    sliders = {kind: len(first["sliders"]) for kind, first in zip(LABELS, shown, strict=True)}
    rows = ask(*((kind, row[: sliders[kind]]) for kind, row in asked))
    for (kind, row), answer in zip(asked, rows, strict=True):
        numbers = re.findall(NUMBER, " ".join(row[sliders[kind] :]))
        said = re.findall(NUMBER, answer["says"])
        assert numbers
        assert set(numbers) <= set(said), f"{kind} {row}: {answer['says']}"


def test_a_page_gives_its_explorable_the_still_picture():
    shown = page.for_browser(PAGES["sampling"])
    still = (PAGES["sampling"].folder / "explorable.svg").read_text(encoding="utf-8")
    assert f'\n\n<figure class="explorable" data-explorable="sampling">\n{still}</figure>\n\n' in shown
    assert "\n\n" not in still, "a blank line ends a block of HTML in Markdown"


def test_the_documentation_lists_the_kinds_and_their_sliders():
    text = (ROOT / "docs" / "courses.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", text[text.index("| Kind | Sliders |") :], re.MULTILINE)[: len(LABELS)]
    shown = ask(*((kind, []) for kind in LABELS))
    named = {kind: list(dict.fromkeys(re.findall(r"`(\w+)`", words))) for kind, words in rows}
    assert named == {kind: first["sliders"] for kind, first in zip(LABELS, shown, strict=True)}


def test_stills_of_another_course(tmp_path: Path):
    """The page chooses where its sliders start. A kind that does not exist is named."""
    node = shutil.which("node")
    if node is None:
        missing("node is not installed")
    for name, line in (
        ("p01_rates", "schedule decay=100"),
        ("p02_other", "pendulum"),
        ("p03_low", "schedule decay=20"),
    ):
        (tmp_path / "problems" / name).mkdir(parents=True)
        (tmp_path / "problems" / name / "page.md").write_text(f"# Title\n\n<!-- explorable: {line} -->\n")
    run = subprocess.run([node, ROOT / "docs" / "stills.mjs", tmp_path], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert 'There is no explorable "pendulum"; choose one of attention, heads' in run.stderr
    assert 'The explorable "schedule" cannot start with "decay=20"; it takes warmup=0 to warmup=40, ' in run.stderr
    (still,) = tmp_path.rglob("*.svg")
    ours = PAGES["schedule"].folder / "explorable.svg"
    assert still.read_text().startswith("<svg ")
    assert still.read_text() != ours.read_text()
