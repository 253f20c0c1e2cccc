"""The capstone as a learner meets it: with no pieces, with stubs, with broken ones, with settings that are not theirs to set."""

import shutil
from pathlib import Path

import pytest

from grader import course
from tests.conftest import ROOT, Grade

GOOD = "def settings():\n    return {'learning_rate': 5e-3, 'warmup_steps': 10, 'final_learning_rate': 0.1}\n"


def write(folder: Path, text: str, *others: str) -> Path:
    """The learner's file, and reference solutions of other problems beside it."""
    for name in others:
        shutil.copyfile(ROOT / "solutions" / f"{name}.py", folder / f"{name}.py")
    path = folder / "p32_tinystories.py"
    path.write_text(text)
    return path


def test_stubs_are_left_out_and_progress_is_shown(grade: Grade, tmp_path: Path):
    """Also: nothing but the report is on stdout."""
    stub = course.load("p06_mini_gpt").folder / "stub.py"
    shutil.copyfile(stub, tmp_path / "p06_mini_gpt.py")
    text = (
        "from p06_mini_gpt import MiniGPT\nfrom p10_lr_schedule import warmup_cosine\n"
        "def pieces():\n    return {'MiniGPT': MiniGPT, 'warmup_cosine': warmup_cosine}\n" + GOOD
    )
    run = grade("problem", 32, write(tmp_path, text, "p10_lr_schedule"), "--json")
    assert run.json["verdict"] == "PASS", run.json["checks"]
    assert "training: step 200 of 200, loss" in run.err
    assert run.err.count("training: step") == 10
    messages = {check["name"]: check["message"] for check in run.json["checks"]}
    assert "yours: MiniGPT, warmup_cosine" in messages["pieces made by you"]
    assert "a story: Once upon a time" in messages["validation loss"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def pieces():\n    return {}\ndef settings():\n    return {'steps': 9000}\n", "'steps', which is fixed here"),
        ("def pieces():\n    return {}\ndef settings():\n    return {'learning_rate': 'fast'}\n", "it must be a number"),
        ("def pieces():\n    return {}\ndef settings():\n    return {'learning_rate': -1}\n", "must be a number and not"),
        ("def pieces():\n    return []\n" + GOOD, "must return a dictionary"),
        ("def pieces():\n    return {'MiniGTP': print}\n" + GOOD, "did you mean 'MiniGPT'"),
        ("def pieces():\n    return {'adamw': 3}\n" + GOOD, "give the class or function itself"),
        ("def make(*args):\n    return 1 / 0\ndef pieces():\n    return {'adamw': make}\n" + GOOD,
         "adamw of p09_adamw.py failed: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_what_is_given_wrongly_is_said(text: str, sentence: str, grade: Grade, tmp_path: Path):
    run = grade("problem", 32, write(tmp_path, text), "--json")
    assert run.code == 1
    assert any(sentence in check["message"] for check in run.json["checks"]), run.json["checks"]


def test_a_wrong_piece_of_an_earlier_problem_is_named_first(grade: Grade, tmp_path: Path):
    text = (
        "from p10_lr_schedule import warmup_cosine\nfrom p11_gradient_clipping import clip_by_global_norm\n"
        "def pieces():\n    return {'warmup_cosine': warmup_cosine, 'clip_by_global_norm': clip_by_global_norm}\n"
        + GOOD
    )
    file = write(tmp_path, text, "p10_lr_schedule")
    (tmp_path / "p11_gradient_clipping.py").write_text(
        "import jax, jax.numpy as jnp\ndef clip_by_global_norm(gradients, max_norm):\n"
        "    return jax.tree.map(lambda g: 0 * g, gradients), jnp.float32(1)\n"
    )
    run = grade("problem", 32, file, "--json")
    assert run.json["verdict"] == "FAIL"
    assert run.json["earlier"]["problem"]["name"] == "p11_gradient_clipping"
    assert "looking at p10_lr_schedule.py, which it imports" in run.err


def test_forged_progress_is_cut_off_and_harmless(grade: Grade, tmp_path: Path):
    text = (
        "import json, os, struct\n"
        "line = json.dumps({'kind': 'progress', 'fields': {'text': '\\x1b[31m' + 'x' * 9000}, 'leaves': []}).encode()\n"
        "while True:\n    os.write(3, struct.pack('!IQ', len(line), 0) + line)\n"
    )
    run = grade("problem", 32, write(tmp_path, text), "--json")
    assert run.json["verdict"] == "ERROR"
    assert "progress without end" in run.json["checks"][0]["message"]
    assert "\x1b" not in run.err
    assert max(map(len, run.err.splitlines())) <= 100
