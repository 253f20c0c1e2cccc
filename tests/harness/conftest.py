"""Fixtures of the harness tests: a strict JAX with eight CPU devices, a cache of their own, small runs."""

import functools
import gc
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import pytest
import tiktoken
from jaxtyping import install_import_hook

jax.config.update("jax_num_cpu_devices", 8)
# No traceback for each operation of a lowered program.
jax.config.update("jax_traceback_in_locations_limit", 0)
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

with install_import_hook("harness", "beartype.beartype"):
    importlib.import_module("harness.run.loop")  # it and all its imports check their annotations at run time

from harness.cli.main import main
from harness.config import Config
from harness.data.tokenizer_json import SPLIT_PATTERN
from harness.pieces.load import Pieces, load_pieces
from harness.pieces.registry import MODULES
from harness.run import run_session
from tests.conftest import ROOT, Run
from tests.forked import Preloaded

# Metrics that differ between executions. All others are determined by the config.
MEASURED = ("time", "tokens_per_s", "mfu", "memory")
TINY = Config(
    data="pocket", tokenizer="pocket-2k", context=16, d_model=16, num_heads=2, d_ff=24, num_layers=2, vocab_size=2048,
    batch_size=8,
    steps=6, eval_every=3, eval_batches=2, learning_rate=1e-2, warmup_steps=2, mesh="1x1",
)  # fmt: skip
STORIES = "".join(f"The {who} saw {what} {number} times.<|endoftext|>" for number in range(40)
                  for who in ("cat", "dog") for what in ("a ball", "the moon", "nothing"))  # fmt: skip

IMPORTED = ("p52_speculative_decoding",)  # by pieces, without being one

Harness = Callable[..., Run]


@pytest.fixture(scope="session", autouse=True)
def compiled_programs(cache_folder: Path) -> None:
    """Keeps the programs of processes that tests start, most of which compile the same ones."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(os.environ["HARNESS_CACHE"]) / "programs")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"


@pytest.fixture(scope="session", autouse=True)
def traced_once() -> Iterator[None]:
    """Sessions with the same settings share what is traced, in all files: runs of one user seldom have so many
    settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_session, "_functions", functools.lru_cache(maxsize=32)(run_session._functions.__wrapped__))
        yield


@pytest.fixture
def stories_file(tmp_path: Path) -> Path:
    """240 short stories as text."""
    path = tmp_path / "stories.txt"
    path.write_text(STORIES)
    return path


@pytest.fixture
def tiny(stories_file: Path) -> Config:
    """A run of six steps, which takes a second."""
    return replace(TINY, data=str(stories_file))


def byte_tokenizer(special: Sequence[str]) -> tiktoken.Encoding:
    """A tokenizer of bytes and of these special tokens."""
    return tiktoken.Encoding(
        "a-test",
        pat_str=SPLIT_PATTERN,
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={name: 256 + number for number, name in enumerate(special)},
    )


def command(*args: object) -> list[str]:
    """`harness ARGS` as a command line that works without an installation."""
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from harness.cli.main import main; main()"
    return [sys.executable, "-W", "error", "-c", boot, *map(str, args)]


@pytest.fixture(scope="session")
def preloaded_harness() -> Iterator[Preloaded]:
    """The process that `harness` is forked from."""
    preloaded = Preloaded(
        "harness.cli.main", "harness.run.loop", "harness.run.state", "harness.pieces.load", flags=("-W", "error")
    )
    yield preloaded
    preloaded.close()


@pytest.fixture
def harness(tmp_path: Path, preloaded_harness: Preloaded) -> Harness:
    """Runs `harness ARGS` as a process in an empty folder."""

    def run(*args: object, timeout: float = 300) -> Run:
        return Run(*preloaded_harness.run([*map(str, args)], tmp_path, dict(os.environ), timeout))

    return run


@pytest.fixture
def harness_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Harness:
    """Runs `harness ARGS` in this process, in an empty folder: for what a command does, where no process is the
    subject.

    This process has eight devices, so a new run needs a mesh of one.
    """
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> Run:
        capsys.readouterr()
        thresholds = gc.get_threshold()
        with pytest.raises(SystemExit) as exited:
            main([*map(str, args)])
        gc.set_threshold(*thresholds)  # those of tests, which a command replaces by its own
        return Run(int(exited.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def charts_and_samples() -> None:
    """Runs of this process draw charts and sample, as others do."""


@pytest.fixture(autouse=True)
def quick_hooks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this process draw no charts, and their samples are empty: both take longer than a few steps of a tiny
    model."""
    if "charts_and_samples" not in request.fixturenames:
        monkeypatch.setattr("harness.run.loop.charts.draw", lambda *arguments: None)
        monkeypatch.setattr("harness.run.loop.sample_text", lambda *arguments: "")


@pytest.fixture(autouse=True)
def strict_ranks() -> Iterator[None]:
    """Implicit rank promotion raises an error."""
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def strict_dtypes() -> Iterator[None]:
    """Implicit dtype promotion raises an error. Not for all tests: optax, and Flax in bfloat16, promote dtypes."""
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture
def one_device() -> Iterator[None]:
    """Sets a mesh of one device."""
    with jax.set_mesh(
        jax.make_mesh(
            (1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:1]
        )
    ):
        yield


def copy_reference(folder: Path) -> Path:
    """Copies all reference solutions that are pieces, or that these import, to `folder`, and forgets imports of
    others."""
    folder.mkdir(exist_ok=True)
    for module in {*MODULES.values(), *IMPORTED}:
        sys.modules.pop(module, None)
        shutil.copyfile(ROOT / "solutions" / f"{module}.py", folder / f"{module}.py")
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """A folder with all reference solutions that are pieces."""
    path = list(sys.path)
    yield copy_reference(tmp_path / "attempts")
    sys.path[:] = path
    for module in (*MODULES.values(), *IMPORTED):
        sys.modules.pop(module, None)


@pytest.fixture(scope="session")
def _all_pieces(tmp_path_factory: pytest.TempPathFactory) -> Pieces:
    return load_pieces(copy_reference(tmp_path_factory.mktemp("attempts")))


@pytest.fixture
def pieces(_all_pieces: Pieces) -> Pieces:
    """All pieces of the reference, smoke-tested once for all tests."""
    return replace(_all_pieces, by_name=dict(_all_pieces.by_name))
