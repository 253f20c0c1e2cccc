"""Reinforcement learning of a model in Hugging Face's format, by the command."""

import json
import os
import re
import subprocess
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageError
from harness.presets import fine_tuning, reinforcement
from harness.run.folder import Run
from harness.run.run_session import ignore, open_session
from tests.forked import Preloaded
from tests.harness.conftest import MEASURED, Harness, command
from tests.harness.hugging_face.models import LAYOUTS, exported

OPTIONS = ("--task", "arithmetic", "--prompts", 2, "--group", 4, "--set", "context=48", "--set", "prompt_tokens=20",
           "--set", "data=pocket:50", "--set", "eval_every=2", "--quiet")  # fmt: skip


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    """The folder of a small random model in the layout of Qwen 2.5."""
    exported(LAYOUTS["Qwen 2"], tmp_path / "qwen")
    return tmp_path / "qwen"


@pytest.mark.thorough  # the test below goes through the same command, with adapters
def test_all_parameters_are_trained_for_three_updates(qwen: Path, tmp_path: Path, harness_here: Harness) -> None:
    result = harness_here("rl", f"hf:{qwen}", *OPTIONS, "--steps", 3, "--kl", 0, "--set", "learning_rate=1e-3")
    assert result.code == 0, result.err
    run = Run(tmp_path / "runs" / "qwen-rl")
    assert [entry["step"] for entry in run.metrics()] == [1, 2, 3]
    assert {"reward", "pass_at_1", "pass_at_k", "entropy", "length", "clip_fraction"} <= {*run.metrics()[-1]}
    config = run.config()
    assert (config.context, config.attention_bias, config.base) == (48, "qkv", f"hf:{qwen}")
    refused = harness_here("rl", f"hf:{qwen}", *OPTIONS, "--set", "d_model=8")
    assert (refused.code, "d_model comes from the base" in refused.err) == (2, True)


@pytest.mark.thorough
def test_questions_are_asked_by_the_models_own_template(qwen: Path, tmp_path: Path, harness_here: Harness) -> None:
    """Answers end with the template's own token. The validation loss is still measured on stories."""
    (qwen / "chat_template.jinja").write_text(
        "{% for message in messages %}{% if message.role == 'assistant' %} So:{{ message.content }}{{ eos_token }}"
        "{% else %}{{ message.content }}{% endif %}{% endfor %}{% if add_generation_prompt %} So:{% endif %}"
    )
    for options, chat in (((), f"hf:{qwen}"), (("--template", "none"), "")):
        name = "asked" if chat else "plain"
        result = harness_here("rl", f"hf:{qwen}", *OPTIONS, "--lora", 2, "--steps", 1, "--run", name, *options)
        assert result.code == 0, result.err
        run = Run(tmp_path / "runs" / name)
        assert (run.config().chat, run.config().field) == (chat, "text")
        assert run.metrics()[-1]["validation_loss"] > 0
        session = open_session(run, run.config(), None, log=ignore, quiet=True)
        asked = session.tokenizer.decode(session.prompt_ids("1+2"))
        assert asked == ("1+2 So:" if chat else "1+2")
        evaluated = harness_here("eval", name, "--task", "arithmetic", "--problems", 2, "--samples", 1)
        assert evaluated.code == 0, evaluated.err
    before = harness_here("eval", f"hf:{qwen}", "--task", "arithmetic", "--problems", 2, "--samples", 1)
    assert before.out.startswith(f"hf:{qwen}, task arithmetic: 2 held-out problems, 1 answer to each\n"), before.err
    refused = harness_here("rl", f"hf:{qwen}", "--reward", "ends", "--template", "plain", "--quiet")
    assert (refused.code, "--template needs --task" in refused.err) == (2, True)


def determined(run: Path) -> list[dict[str, Any]]:
    """The metrics that the config determines."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in MEASURED} for line in lines]


def arrays(run: Path, step: int) -> dict[str, np.ndarray]:
    """All arrays of a checkpoint, read without the harness."""
    import orbax.checkpoint as ocp

    with ocp.PyTreeCheckpointer() as checkpointer, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without shardings, arrays are read onto the device that wrote them
        return dict(checkpointer.restore(run / "checkpoints" / str(step) / "state"))


@pytest.mark.thorough
def test_a_run_with_adapters_that_is_killed_ends_the_same(
    qwen: Path, tmp_path: Path, preloaded_harness: Preloaded
) -> None:
    """The checkpoint has the adapters alone, and the base of the KL divergence is made again."""

    def arguments(root: Path) -> list[str]:
        lora = ("--lora", 2, "--set", "learning_rate=0.05", "--steps", 8, "--runs", root)
        return [*map(str, ("rl", f"hf:{qwen}", *OPTIONS, *lora))]

    def to_the_end(root: Path) -> Path:
        code, _, err = preloaded_harness.run(arguments(root), tmp_path, dict(os.environ), 300)
        assert code == 0, err
        return root / "qwen-rl"

    whole, root = to_the_end(tmp_path / "whole"), tmp_path / "killed"
    metrics = root / "qwen-rl" / "metrics.jsonl"
    process = subprocess.Popen(command(*arguments(root)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while (
        not (root / "qwen-rl" / "checkpoints" / "2").is_dir() and process.poll() is None and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert process.returncode == -9
    assert metrics.read_bytes().count(b"\n") < 8
    killed = to_the_end(root)
    assert determined(killed) == determined(whole)
    assert determined(whole)[-1]["kl"] > 0
    own, expected = arrays(killed, 8), arrays(whole, 8)
    assert any(name.endswith("lora_b") and np.any(array) for name, array in own.items())
    assert own.keys() == expected.keys()
    for name, array in own.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


@pytest.mark.parametrize(
    ("size", "rate", "of_adapters"),
    [(10**6, 2e-3, 2e-2), (10**8, 5e-5, 2e-4), (5 * 10**8, 2e-5, 2e-4), (8 * 10**9, 1e-5, 1e-4)],
)
def test_fine_tuning_of_a_pretrained_model_is_gentle(size: int, rate: float, of_adapters: float) -> None:
    long = replace(LAYOUTS["Qwen 2"], context=32768)
    bases = [(long, "hf:qwen"), (replace(long, base="hf:qwen"), "tuned"), *([(long, "large")] if size > 10**7 else [])]
    for base, name in bases:
        config = fine_tuning(base, name, {"data": "x"}, size)
        assert (config.learning_rate, config.context) == (rate, 1024 if name == "hf:qwen" else 32768)
        config = fine_tuning(base, name, {"data": "x", "lora_rank": "8"}, size)
        assert (config.learning_rate, config.lora_targets) == (of_adapters, "attn,mlp")
        typed = {"data": "x", "lora_rank": "8", "learning_rate": "0.1", "lora_targets": "embed"}
        config = fine_tuning(base, name, typed, size)
        assert (config.learning_rate, config.lora_targets) == (0.1, "embed")
    assert fine_tuning(long, "mine", {"data": "x"}, 10**6).learning_rate == 2e-3
    assert fine_tuning(LAYOUTS["GPT-2"], "hf:gpt2", {"data": "x"}, size).context == 256  # its positions are parameters


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_the_settings_of_a_pretrained_model_are_said(
    backend: str, harness_here: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is computed; a device that is faster in bfloat16 computes in it."""
    exported(replace(LAYOUTS["Qwen 2"], context=2048), tmp_path / "in")
    (tmp_path / "text.txt").write_text("The cat saw the moon. " * 200)
    monkeypatch.setattr("jax.default_backend", lambda: backend)
    result = harness_here("finetune", "hf:in", "--data", "text.txt", "--lora", 2, "--set", "mesh=1x1")
    assert result.code == 2
    dtype = "float32" if backend == "cpu" else "bfloat16"
    first, *_, last = result.err.splitlines()
    assert re.fullmatch(
        r"A pretrained model of 5\d,\d{3} parameters: learning_rate=0.02, context=1024, "
        rf"dtype={dtype}, lora_targets=attn,mlp. Other settings: --set KEY=VALUE.", first,
    )  # fmt: skip
    assert re.search(
        r"a step takes 8 windows. Use a text of .* tokens, or a shorter context with --set context=\d+", last
    )


def test_settings_for_an_imported_model_are_gentler_and_its_context_may_be_cut() -> None:
    base = LAYOUTS["Qwen 2"]
    full = reinforcement(base, "hf:qwen", {})
    adapters = reinforcement(base, "hf:qwen", {"lora_rank": "2"})
    own = reinforcement(base, "mine", {})
    assert full.learning_rate < own.learning_rate / 100
    assert adapters.learning_rate == pytest.approx(10 * full.learning_rate)
    assert reinforcement(base, "hf:qwen", {"context": "64", "dtype": "bfloat16"}).context == 64
    assert fine_tuning(base, "hf:qwen", {"context": "64"}).context == 64
    for name, config in (("mine", base), ("hf:gpt2", LAYOUTS["GPT-2"])):  # whose positions are parameters
        with pytest.raises(UsageError, match="context comes from the base"):
            reinforcement(config, name, {"context": "64"})
    with pytest.raises(UsageError, match="--targets needs --lora R"):
        reinforcement(base, "mine", {"lora_targets": "attn"})
