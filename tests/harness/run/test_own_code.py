"""The code in the folder of a run from somebody else does not run before it is trusted; that of a run made here
does."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commandline import trust
from harness.pieces.registry import MODULES
from tests.harness.conftest import ROOT, Harness

SETTINGS = (
    "context=16", "d_model=16", "num_heads=2", "d_ff=24", "num_layers=1", "vocab_size=2048", "batch_size=8", "mesh=1x1",
    "eval_every=1", "eval_batches=1",
)  # fmt: skip
PIECE = "p53_encode_decode.py"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine on which nothing is trusted."""
    path = list(sys.path)
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)
    yield
    forget(monkeypatch)
    sys.path[:] = path


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets what only this process knows, as if the next command had one of its own."""
    monkeypatch.setattr(trust, "_trusted", set())
    for module in MODULES.values():
        sys.modules.pop(module, None)


def trained(harness: Harness, stories: Path, name: str, *options: object) -> Path:
    """A run of one step."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    result = harness("train", "--run", name, "--data", stories, "--steps", 1, "--quiet", *settings, *options)
    assert result.code == 0, result.err
    return Path("runs") / name


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the run of `stranger`, which is trained once."""
    return tmp_path_factory.mktemp("kept") / "stranger"


@pytest.fixture
def stranger(harness_here: Harness, stories_file: Path, tmp_path: Path, kept: Path) -> Path:
    """A run whose piece writes a file when it is imported."""
    run = Path("runs") / "stranger"
    if not kept.exists():
        shutil.copytree(trained(harness_here, stories_file, "stranger"), kept)
    shutil.copytree(kept, run, dirs_exist_ok=True)
    (run / "pieces").mkdir()
    source = (ROOT / "solutions" / PIECE).read_text("utf-8")
    (run / "pieces" / PIECE).write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{source}")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"pieces": ["encode 0123456789ab"]}))
    return run


@pytest.mark.parametrize(
    "command",
    [
        ("sample", "stranger"),
        ("chat", "stranger"),
        ("eval", "stranger"),
        ("eval", "stranger", "--task", "arithmetic"),
        ("export", "stranger", "--to", "exported"),
        ("resume", "stranger", "--steps", 2),
        ("train", "--run", "stranger"),
        ("finetune", "stranger", "--data", "stories.txt"),
        ("rl", "stranger", "--reward", "ends"),
        ("profile", "stranger"),
        ("find-lr", "--run", "stranger"),
    ],
    ids=lambda command: " ".join(map(str, command[:1] + command[2:3])),
)
def test_no_command_runs_the_pieces_of_a_stranger(
    harness_here: Harness, stranger: Path, tmp_path: Path, command: tuple[object, ...]
) -> None:
    result = harness_here(*command)
    assert result.code == 2
    assert f"The run {stranger} was not made on this machine" in result.err
    assert PIECE in result.err
    assert f"if you trust it, run `harness trust {stranger}`" in result.err
    assert not (tmp_path / "ran").exists()


def test_the_studio_s_playground_does_not_run_them_either(harness: Harness, stranger: Path, tmp_path: Path) -> None:
    result = harness("playground", "stranger")
    assert result.code == 2
    assert f"The run {stranger} was not made on this machine" in result.err
    assert not (tmp_path / "ran").exists()


def test_a_stranger_s_run_is_opened_as_data_or_trusted(harness_here: Harness, stranger: Path, tmp_path: Path) -> None:
    options = ("--prompt", "The", "--max-tokens", 2)
    refused = harness_here("sample", "stranger", *options)
    assert "`--no-pieces` uses the harness's own code" in refused.err
    as_data = harness_here("sample", "stranger", "--no-pieces", *options)
    assert as_data.code == 0, as_data.err
    assert as_data.out.startswith("The")
    assert not (tmp_path / "ran").exists()

    trusting = harness_here("trust", "stranger")
    assert trusting.out == f"Trusted: the pieces {PIECE}.\n"
    assert not (tmp_path / "ran").exists(), "only a command that needs it runs the code"
    shutil.move(stranger, "moved")
    sampled = harness_here("sample", "moved", "--step", 9)  # no such step, which is said after the pieces are loaded
    assert "Existing steps: 1" in sampled.err
    assert (tmp_path / "ran").exists()

    with (Path("moved") / "pieces" / PIECE).open("a") as file:
        file.write("# changed\n")
    assert "its code has changed since" in harness_here("sample", "moved").err


@pytest.mark.parametrize("name", ["numpy/__init__.py", "numpy.so", "__pycache__/p53_encode_decode.pyc", "link"])
def test_what_could_be_imported_in_place_of_a_piece_is_refused(
    harness_here: Harness, stranger: Path, name: str
) -> None:
    assert harness_here("trust", "stranger").code == 0
    other = stranger / "pieces" / name
    other.parent.mkdir(exist_ok=True)
    other.write_text("")
    for command in (("sample", "stranger"), ("trust", "stranger")):
        refused = harness_here(*command)
        assert refused.code == 2
        assert f"{stranger / 'pieces' / name.partition('/')[0]} is not a file that a run keeps" in refused.err


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_piece_that_is_no_regular_file_is_refused(harness_here: Harness, stranger: Path, kind: str) -> None:
    piece = stranger / "pieces" / "p01_token_embedding.py"
    if kind == "pipe":
        os.mkfifo(piece)
    else:
        piece.symlink_to(ROOT / "solutions" / PIECE)
    for command in (("sample", "stranger"), ("trust", "stranger")):
        refused = harness_here(*command)
        assert refused.code == 2
        assert f"{piece} is a" in refused.err


def test_a_run_made_here_needs_nothing_wherever_it_is(
    harness_here: Harness, stories_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "attempts"
    workspace.mkdir()
    shutil.copyfile(ROOT / "solutions" / PIECE, workspace / PIECE)
    run = trained(harness_here, stories_file, "mine", "--pieces", workspace)
    forget(monkeypatch)
    shutil.move(run, "elsewhere")
    sampled = harness_here("sample", "elsewhere", "--max-tokens", 2)
    assert sampled.code == 0, sampled.err
    forget(monkeypatch)
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache of another user"))
    assert "was not made on this machine" in harness_here("sample", "elsewhere").err


def test_pieces_that_were_there_before_a_run_are_not_its_own(
    harness_here: Harness, stories_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without a config is no run yet. What is in it was not made here."""
    workspace, planted = tmp_path / "attempts", tmp_path / "runs" / "mine" / "pieces"
    workspace.mkdir()
    planted.mkdir(parents=True)
    shutil.copyfile(ROOT / "solutions" / PIECE, workspace / PIECE)
    (planted / PIECE).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    trained(harness_here, stories_file, "mine", "--pieces", workspace)
    forget(monkeypatch)
    assert "was not made on this machine" in harness_here("sample", "mine").err
    assert not (tmp_path / "ran").exists()


def test_the_program_of_a_stranger_s_reward_does_not_run(
    harness_here: Harness, stories_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(harness_here, stories_file, "base")
    program = tmp_path / "mine.py"
    program.write_text("def score(prompt, continuation, ended):\n    return len(continuation)\n")
    settings = [word for setting in SETTINGS[-2:] for word in ("--set", setting)]
    options = (
        "--reward",
        f"{program}:score",
        "--steps",
        1,
        "--prompts",
        1,
        "--group",
        2,
        "--set",
        "prompt_tokens=4",
        "--quiet",
    )
    made = harness_here("rl", "base", *options, *settings)
    assert made.code == 0, made.err
    forget(monkeypatch)
    assert harness_here("resume", "base-rl", "--steps", 2, "--quiet").code == 0, "made here"

    program.unlink()
    with (tmp_path / "runs" / "base-rl" / "reward.py").open("a") as file:
        file.write(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    refused = harness_here("resume", "base-rl", "--steps", 3, "--quiet")
    assert refused.code == 2
    assert "its code has changed since: the reward reward.py" in refused.err
    assert not (tmp_path / "ran").exists()
    assert harness_here("trust", "base-rl").out == "Trusted: the reward reward.py.\n"
    assert harness_here("resume", "base-rl", "--steps", 3, "--quiet").code == 0
    assert (tmp_path / "ran").exists()
    assert harness_here("trust", "base").out == f"The run {Path('runs/base')} has no code.\n"


def test_a_run_whose_model_is_its_pieces_cannot_be_opened_without_them(
    harness_here: Harness, stories_file: Path, workspace: Path
) -> None:
    for file in workspace.glob("p*.py"):
        if file.stem != "p03_causal_mha":
            file.unlink()
    trained(harness_here, stories_file, "mine", "--pieces", workspace)
    refused = harness_here("sample", "mine", "--no-pieces")
    assert refused.code == 2
    assert "cannot be opened without its pieces: they are its model" in refused.err
    assert harness_here("sample", "hf:mine", "--no-pieces").code == 2
