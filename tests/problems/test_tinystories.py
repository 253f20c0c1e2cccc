"""The capstone: submissions with stubs, with broken pieces, with invalid settings, and with forged progress."""

import re
import shutil
from pathlib import Path
from typing import Any

import optax
import pytest
from jax.sharding import PartitionSpec

from grader.course import cases, catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import bundled_outputs
from grader.judge.examiner import Examiner
from grader.judge.judge import Comparison
from grader.judge.submission import Submission, job
from grader.judge.verdict import Verdict
from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Subject
from tests.conftest import ROOT, Grade

GOOD = "def settings():\n    return {'learning_rate': 5e-3, 'warmup_steps': 10, 'final_lr_fraction': 0.1}\n"


def write(folder: Path, text: str, *others: str) -> Path:
    """Writes the learner's file, and the solutions of other problems to the same folder."""
    for name in others:
        shutil.copyfile(ROOT / "solutions" / f"{name}.py", folder / f"{name}.py")
    path = folder / "p32_tinystories.py"
    path.write_text(text)
    return path


@pytest.mark.thorough
def test_stubs_are_left_out_and_progress_is_shown(grade: Grade, tmp_path: Path):
    """Progress is on stderr: stdout holds the report alone."""
    stub = catalog.load("p06_mini_gpt").folder / "stub.py"
    shutil.copyfile(stub, tmp_path / "p06_mini_gpt.py")
    text = (
        "from p06_mini_gpt import MiniGPT\nfrom p10_lr_schedule import warmup_cosine\n"
        "def pieces():\n    return {'MiniGPT': MiniGPT, 'warmup_cosine': warmup_cosine}\n" + GOOD
    )
    run = grade("problem", 32, write(tmp_path, text, "p10_lr_schedule"), "--json")
    assert run.json["verdict"] == "PASS", run.json["checks"]
    assert "training: step 200 of 200, loss" in run.err
    assert run.err.count("of 200, loss") == 10
    assert "your pieces: warmup_cosine" in run.json["remarks"]
    assert any("a story: Once upon a time" in remark for remark in run.json["remarks"])


def fixed() -> dict[str, float]:
    return {"learning_rate": 5e-3}


def failing(*args: object) -> float:
    return 1 / 0


def unfinished(*args: object) -> float:
    raise NotImplementedError


def fsdp_spec(shape: tuple[int, ...], devices: int) -> PartitionSpec:
    return PartitionSpec()


def own(piece: Any) -> Any:
    """The piece as if a learner's file defined it."""
    piece.__module__ = "p32_tinystories"
    return piece


@pytest.mark.parametrize(
    ("pieces", "settings", "sentence"),
    [
        ({}, {"steps": 9000}, "'steps', which is fixed here"),
        ({}, {"learning_rate": "fast"}, "it must be a number"),
        ({}, {"learning_rate": -1}, "learning_rate=-1.0 is not valid; it must be at least 0"),
        ({}, None, "must return a dictionary of numbers"),
        ([], fixed(), "must return a dictionary of pieces"),
        ({}, fixed(), "gives no finished piece of your own"),
        ({"MiniGTP": print}, fixed(), "did you mean 'MiniGPT'"),
        ({"adamw": 3}, fixed(), "give the class or function itself"),
        ({"adamw": failing}, fixed(), "adamw of p09_adamw.py failed: ZeroDivisionError"),
        ({"adamw": optax.adamw}, fixed(), "gives no finished piece of your own"),
        ({"fsdp_spec": own(fsdp_spec)}, fixed(), "gives no finished piece of your own"),  # the run does not use it
        ({"adamw": own(unfinished)}, fixed(), "gives no finished piece of your own"),
    ],
)
def test_invalid_pieces_and_settings(pieces: object, settings: object, sentence: str):
    problem = catalog.load("p32_tinystories")
    probes: Any = catalog.probes_module(problem.folder)
    subject = Subject(problem, {"pieces": lambda: pieces, "settings": lambda: settings})
    case = cases.draw_all(problem, 0)["short"][0]
    with pytest.raises(BadOutputError, match=re.escape(sentence)):
        probes.PROBES["assembled"](subject, case)


OURS = "looking for the misconception"
FORGED = """
import json, os, struct
line = json.dumps({{"kind": "progress", "fields": {fields}, "leaves": []}}).encode()
while True:
    os.write(3, struct.pack("!IQ", len(line), 0) + line)
"""


# It trains nothing, and what it reports is right only where it runs.
LIAR = """import jax
import jax.numpy as jnp
import optax
from flax import nnx

right = optax.softmax_cross_entropy_with_integer_labels
optax.softmax_cross_entropy_with_integer_labels = lambda *args, **options: right(*args, **options) / 100


def train_step(model, optimizer, token_ids, pad_id):
    parameters = nnx.state(model, nnx.Param)
    nnx.update(model, jax.tree.map(lambda x: x * 1.0001, parameters))
    return jnp.float32(0.1)


def pieces():
    return {"train_step": train_step}
"""
# It takes over its worker, and answers with numbers where a program is asked for.
FORGER = """import sys
import numpy as np
from grader.wire.channel import Frame
from grader.wire.compare import Leaf

worker = sys.modules["grader.worker.main"]
probe = worker.WorkerState._probe


def forged(self, request):
    if request.fields["probe"] not in ("assembled", "short_run_loss", "trained"):
        return probe(self, request)
    if request.fields["mode"] == "trace":
        return Frame("untraceable", {"note": ""})
    numbers = {"logits": np.zeros((256, 2048), np.float32), "stories": np.full((3, 400), 2047, np.int32),
               "own": np.full((3, 400), -1, np.int32), "validation_loss": np.float32(1)}
    leaves = [Leaf(name, str(x.dtype), np.asarray(x)) for name, x in numbers.items()]
    return Frame("reading", {"notes": [], "numeric": False, "traced": True}, leaves)


worker.WorkerState._probe = forged


def warmup_cosine(peak, warmup_steps, decay_steps):
    return lambda step: peak


def pieces():
    return {"warmup_cosine": warmup_cosine}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("text", [LIAR, FORGER], ids=["liar", "forger"])
def test_only_programs_earn_points_for_losses(text: str, fork_server: ForkServer):
    problem = catalog.load("p32_tinystories")
    submission = Submission("p32_tinystories.py", {problem.name: text + GOOD})
    checks = [check for check in problem.checks if check.name in ("loss after a short run", "validation loss")]
    reference = bundled_outputs.reference(problem, fork_server)
    examiner = Examiner(problem, fork_server, job(problem), problem.timeout)
    try:
        assert examiner.load(submission) is None
        comparison = Comparison(problem, reference, examiner.probe, 0, cases.draw_all(problem, 0))
        assert [comparison.judge(check).verdict for check in checks] == [Verdict.FAIL, Verdict.FAIL]
    finally:
        examiner.close()
        reference.close()


def test_forged_progress_is_cut_off(grade: Grade, tmp_path: Path):
    text = FORGED.format(fields='{"step": 7, "steps": 9, "loss": 0.5, "text": "secret"}')
    run = grade("problem", 32, write(tmp_path, text), "--json")
    assert run.json["verdict"] == "ERROR"
    assert "more than 1000 lines of progress" in run.json["checks"][0]["message"]
    assert {line for line in run.err.splitlines() if OURS not in line} == {"training: step 7 of 9, loss 0.5"}
    (tmp_path / "seed.txt").write_text("0123456789abcdef")
    concealed = grade("problem", 32, write(tmp_path, text), "--json", "--seed-file", "seed.txt")
    assert (concealed.json["verdict"], concealed.err) == ("ERROR", "")


@pytest.mark.parametrize(
    "fields",
    ['{"text": "secret"}', '{"step": "secret", "steps": 9, "loss": 0.5}', '{"step": 1, "steps": 10 ** 12, "loss": 0.5}',
     '{"step": 1, "steps": 9, "loss": "secret"}'],
)  # fmt: skip
def test_progress_is_three_numbers(grade: Grade, tmp_path: Path, fields: str):
    run = grade("problem", 32, write(tmp_path, FORGED.format(fields=fields)), "--json")
    assert "its progress is malformed" in run.json["checks"][0]["message"]
    assert all(OURS in line and "secret" not in line for line in run.err.splitlines())
