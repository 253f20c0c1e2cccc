"""Each forgery loses the checks that it passes without doing their work, and each check of a claim has a forgery.

A forgery is a plain submission. Its docstring says what it forges and how, and `LOSES` names the checks that must not
pass.
"""

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from grader.course import catalog
from grader.course.imports import imported_modules
from grader.isolation.sandbox import ForkServer
from grader.judge.judge import grade
from grader.judge.options import GradeOptions
from grader.judge.verdict import Verdict
from grader.verify import forgery, forges

FORGERIES = sorted(Path(__file__).with_name("forgeries").glob("p*.py"))
LONGEST = 40  # lines; a forgery is the shortest file that passes the check

# The checks of a claim about a program, a process or a file, by problem. A check of plain values is not a claim.
CLAIMS: Mapping[str, tuple[str, ...]] = {
    "02": ("causality",),
    "04": ("output",),
    "08": ("compiled once",),
    "09": ("five updates", "compiled once"),
    "10": ("works under jit",),
    "12": ("memory of one microbatch", "no more parts than `microbatches`"),
    "14": ("first loss near ln V", "last loss near 0", "every token repeated"),
    "16": (
        "batches of whole rows", "each example once per epoch", "shuffled", "order set by the seed",
        "one shard, one example at a time",
        "resumes at the right batch",
    ),
    "17": (
        "layers initialized differently", "program does not grow with depth",
        "program of the gradients does not grow with depth",
    ),
    "18": ("memory of one chunk", "no array of all logits", "no more parts than chunks"),
    "19": ("products in bfloat16", "sums and exponentials in float32"),
    "20": (
        "partition spec of each parameter", "parameter sharding", "bytes per device", "activations not gathered",
    ),
    "21": (
        "model sharding", "optimizer sharding", "bytes per device", "batch sharding",
        "sharding unchanged after training",
        "state donated", "parameters not gathered",
    ),
    "22": (
        "model sharding", "optimizer sharding", "bytes per device", "initialized sharded",
        "sharding unchanged after training", "state donated",
    ),
    "24": ("output at a large width",),
    "25": (
        "model restored", "optimizer restored", "loss after the next update", "make never run for real",
        "another width refused",
    ),
    "26": (
        "same batches", "same random numbers", "same losses, bit for bit", "same model, bit for bit",
        "same optimizer, bit for bit",
    ),
    "27": (
        "model restored", "optimizer restored", "model sharded on the new mesh", "optimizer sharded on the new mesh",
        "bytes per device", "no array whole on one device",
    ),
    "28": (
        "names, shapes and values", "twelve layers or more", "sizes in config.json", "sizes of a large model",
        "settings in config.json", "safetensors metadata",
        "same logits",
    ),
    "29": ("use of the random key",),
    "30": ("one compilation", "size of the cache", "work of one step"),
    "31": ("base unchanged by training", "layer unchanged by the merge"),
    "32": (
        "model does not look ahead", "loss of the next token", "loss after a short run",
        "resume in a new process, bit for bit", "validation loss", "stories stop at end-of-text",
    ),
    "35": ("compiled once",),
    "37": ("jit",),
    "38": ("statistics in float32",),
    "39": ("one compilation", "size of the cache"),
    "42": ("work of a merge", "work independent of the counts"),
    "43": (
        "no array of all scores", "memory of one block", "later blocks skipped",
        "later blocks skipped in the backward pass",
        "no array of all scores, without a mask", "memory of one block, without a mask", "each block once",
        "each block once in the backward pass", "no array of all scores without gradients",
        "no array of all scores without gradients or a mask", "memory of one block without gradients",
        "memory of one block without gradients or a mask",
    ),
    "44": ("one block at a time", "a kernel for an accelerator", "backward pass for an accelerator"),
    "45": ("product of int8 numbers",),
    "46": ("work of a tall matrix", "memory of the state"),
    "47": ("tensor-parallel collectives", "sequence-parallel collectives", "data-parallel collectives"),
    "48": (
        "only the chosen experts run", "only the chosen experts run with gradients",
        "no array for all tokens and experts",
    ),
    "49": ("blocks sent to neighbors only", "gradients sent to neighbors only", "memory of one block"),
    "53": ("lowest rank first", "work of a long word", "stream without end"),
    "54": ("blocks without a common segment skipped", "a story of many blocks"),
    "55": ("work of many texts", "work of a long chain"),
    "59": ("work of the parts",),
    "60": ("one program for all positions",),
    "63": ("memory of one step",),
    "64": ("answers", "answers with few blocks"),
    "66": ("size of the cache", "absorbed products"),
    "67": ("positions in parallel", "work of a scan", "a text in two parts", "size of the cache"),
    "68": ("stages stay on their devices", "no more bubbles than the schedule's", "sends to neighbors"),
    "69": ("state split over the devices", "sharding after the step", "collectives of the step"),
    "73": (
        "work of the chosen experts", "work if all choose the same", "work with gradients",
        "no matrices for each token",
    ),
    "74": ("whole arrays", "work of chunks", "work of one position"),
    "75": ("one token or two", "text", "tokens a run", "distribution of the text"),
    "76": ("products of codes",),
    "77": ("error of the outputs", "under half of plain rounding", "work of 640 features"),
    "82": (
        "one call", "several calls", "calls side by side", "calls that are not JSON", "JSON that is not a call",
        "JSON that breaks the parser", "tools that fail", "results that are not text", "an interrupt by the user",
        "long results", "marks in texts", "more calls than may run", "a conversation", "a turn without calls",
        "orders in a tool's text", "calls over several turns", "a model that never stops", "a turn that is cut",
        "results that do not fit", "results that just fit", "a prompt without room", "the last token of the budget",
        "random agents", "a long agent",
    ),
    "84": ("work of many questions",),
}  # fmt: skip


def label(path: Path) -> str:
    """The number of the problem that a forgery is for, with two digits."""
    return path.name[1:3]


# `grade verify` grades the forgeries, and `test_sound` runs it on every other problem.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "path", [path for path in FORGERIES if catalog.find(label(path)).long_runs], ids=lambda path: path.stem
)
def test_a_forgery_loses_its_checks(fork_server: ForkServer, path: Path):
    problem, lost = catalog.find(label(path)), forges(path)
    # The other checks would take minutes.
    problem = dataclasses.replace(problem, checks=tuple(check for check in problem.checks if check.name in lost))
    report = grade(problem, forgery(problem, path), fork_server, GradeOptions(grade_imports=False, shrink=False))
    passed = {result.check.name for result in report.checks if result.passed}
    assert not passed & set(lost)
    assert report.verdict is not Verdict.PASS


@pytest.mark.fast
@pytest.mark.parametrize("path", FORGERIES, ids=lambda path: path.stem)
def test_a_forgery_is_short_and_says_what_it_forges(path: Path):
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert docstring.startswith("Forges ")
    assert docstring.endswith(".")
    assert forges(path)
    assert set(forges(path)) <= set(CLAIMS[label(path)])
    code = [line for line in text.removeprefix(f'"""{docstring}"""').splitlines() if line.strip()]
    assert len(code) <= LONGEST


@pytest.mark.fast
@pytest.mark.parametrize("path", FORGERIES, ids=lambda path: path.stem)
def test_a_forgery_has_all_that_it_imports(path: Path):
    """One that cannot be imported loses every check, whatever the grader does."""
    sources = forgery(catalog.find(label(path)), path).sources
    assert {name for text in sources.values() for name in imported_modules(text)} <= set(sources)


@pytest.mark.fast
@pytest.mark.parametrize("number", CLAIMS)
def test_every_claim_has_a_forgery(number: str):
    names = {check.name for check in catalog.find(number).checks}
    forged = {name for path in FORGERIES if label(path) == number for name in forges(path)}
    assert set(CLAIMS[number]) <= names, "a check of that name"
    assert set(CLAIMS[number]) == forged
