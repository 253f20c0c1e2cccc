"""A play ends with a command for a model on the disk, if there is one that its piece is a part of."""

import json
import shutil
from pathlib import Path

import pytest

from grader.course import catalog, plays
from grader.course.models_on_disk import ModelOnDisk, smallest
from grader.errors import CourseError
from grader.problem import Problem
from tests.conftest import ROOT, Grade

SHA = "a" * 40


def cached(cache: Path, name: str, model_type: str, size: int, **fields: object) -> Path:
    """A model in the cache of the hub, without its tensors. Returns its snapshot."""
    folder = cache / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / SHA
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(SHA)
    (snapshot / "config.json").write_text(json.dumps({"model_type": model_type, **fields}))
    (snapshot / "model.safetensors").write_bytes(bytes(size))
    return snapshot


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    return tmp_path / "huggingface" / "hub"


@pytest.mark.fast
def test_the_smallest_model_of_a_kind_is_found(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert smallest(["llama"]) is None
    cached(cache, "org/large", "llama", 30)
    cached(cache, "org/small-1.5", "llama", 20)
    cached(cache, "org/other", "gpt2", 10)
    cached(cache, "org/quantized", "llama", 5, quantization_config={"bits": 4})
    (cached(cache, "org/without-weights", "llama", 5) / "model.safetensors").unlink()
    (cached(cache, "org/list", "llama", 5) / "config.json").write_text("[]")
    (cached(cache, "org/no-json", "llama", 5) / "config.json").write_text("{")
    (cached(cache, "org/odd; rm", "llama", 5)).touch()
    (cache / "version.txt").write_text("1")
    assert smallest(["llama", "qwen2"]) == ModelOnDisk("org/small-1.5", 20)
    assert smallest(["gpt2"]) == ModelOnDisk("org/other", 10)
    monkeypatch.setenv("HF_HUB_CACHE", str(cache / "elsewhere"))
    assert smallest(["gpt2"]) is None


@pytest.mark.fast
def test_the_offer_names_the_workspace(cache: Path, tmp_path: Path) -> None:
    rope, block = catalog.find("37"), catalog.find("05")
    file = tmp_path / "my attempts" / f"{rope.name}.py"
    assert plays.offer(rope, file) is None
    cached(cache, "org/small", "qwen3", 2_000_000)
    offer = plays.offer(rope, file)
    assert offer is not None
    assert f"harness sample hf:org/small --pieces '{file.parent}'" in offer.command
    assert offer.said == "There is org/small (0.0 GB) on your disk. To run your code in it:"
    assert plays.offer(rope, tmp_path / "another name.py") is None
    assert plays.offer(block, tmp_path / f"{block.name}.py") is None


@pytest.mark.fast
@pytest.mark.parametrize(
    "text", ['MODEL_TYPES = ("llama",)', 'MODEL_TYPES = "llama"', 'MODEL_COMMAND = "harness sample {model}"']
)
def test_models_and_command_belong_together(text: str, tmp_path: Path) -> None:
    problem = catalog.find("37")
    (tmp_path / "play.py").write_text(f"{text}\n")
    with pytest.raises(CourseError, match="MODEL_TYPES must be a tuple"):
        plays.find(type(problem)(**{**vars(problem), "folder": tmp_path}))


def test_a_play_ends_with_the_offer(cache: Path, tmp_path: Path, grade: Grade) -> None:
    cached(cache, "org/small", "gpt2", 2_000_000)
    for name in ("p41_load_gpt2", "p03_causal_mha"):
        shutil.copyfile(ROOT / "solutions" / f"{name}.py", tmp_path / f"{name}.py")
    run = grade("play", "41", "p41_load_gpt2.py")
    assert run.code == 0, run.err
    assert run.out.endswith("\n  harness sample hf:org/small --pieces . --max-tokens 40\n")


@pytest.mark.fast
@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.name)
def test_every_play_can_be_read(problem: Problem) -> None:
    """Names of its own in a play must not pass for these constants."""
    assert (plays.find(problem) is not None) == plays.exists(problem)
