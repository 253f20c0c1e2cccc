"""OrbaxCheckpointer come back bit for bit, onto any mesh, or say what is wrong with them."""

import gc
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from harness.config import Config
from harness.errors import HarnessError
from harness.training.checkpoint import OrbaxCheckpointer, checksums
from harness.training.sharding import make_mesh
from harness.training.train_step import StepFunctions, make_step_functions
from tests.harness.conftest import TINY

SMALL = replace(TINY, vocab_size=96, context=12)

# What the storage leaves open after a failure of its own is not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(autouse=True)
def leaks_stay_here() -> Iterator[None]:
    """Collects them now, lest another test is blamed for them."""
    yield
    gc.collect()


def functions_of(config: Config) -> StepFunctions:
    return make_step_functions(config, make_mesh(config))


@pytest.fixture
def checkpoints(tmp_path: Path) -> Iterator[OrbaxCheckpointer]:
    made = OrbaxCheckpointer(tmp_path / "run" / "checkpoints")
    yield made
    made.close()


def assert_equal(a: object, b: object) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_what_was_saved_comes_back_and_nothing_else_is_needed(checkpoints: OrbaxCheckpointer) -> None:
    functions = functions_of(SMALL)
    state = functions.init()
    checkpoints.save(3, state, {"next_index": 3}, 1.5)
    checkpoints.wait()
    step, restored, data = checkpoints.restore(3, functions.abstract_state)
    assert (step, data) == (3, {"next_index": 3})
    assert_equal(state, restored)


@pytest.mark.parametrize(("saved", "wanted"), [("4x2", "2x2"), ("4x2", "1x1"), ("1x1", "8x1")])
def test_it_is_restored_onto_another_mesh(checkpoints: OrbaxCheckpointer, saved: str, wanted: str) -> None:
    state = functions_of(replace(SMALL, mesh=saved, fsdp=True)).init()
    checkpoints.save(1, state, {}, None)
    checkpoints.wait()
    functions = functions_of(replace(SMALL, mesh=wanted, fsdp=True))
    _, restored, _ = checkpoints.restore(1, functions.abstract_state)
    assert_equal(state, restored)
    for leaf, shape in zip(jax.tree.leaves(restored), jax.tree.leaves(functions.abstract_state), strict=True):
        assert leaf.sharding.is_equivalent_to(shape.sharding, leaf.ndim)


def test_the_last_two_and_the_best_are_kept(checkpoints: OrbaxCheckpointer) -> None:
    state = functions_of(SMALL).init()
    for step, loss in enumerate([3.0, 1.0, 2.0, 2.5, None], start=1):
        checkpoints.save(step, state, {}, loss)
        checkpoints.wait()
    assert checkpoints.steps() == [2, 4, 5]
    assert checkpoints.best() == 2


def test_another_width_is_refused(checkpoints: OrbaxCheckpointer) -> None:
    checkpoints.save(1, functions_of(SMALL).init(), {}, 1.0)
    checkpoints.wait()
    with pytest.raises(ValueError, match=r"it cannot be read|not what was saved"):
        checkpoints.restore(1, functions_of(replace(SMALL, d_model=24)).abstract_state)


def damage(folder: Path) -> None:
    """Changes one bit in the middle of the largest file of numbers (Orbax keeps those in folders `d`)."""
    largest = max(folder.rglob("d/*"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0x10
    largest.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "harm", [damage, lambda folder: shutil.rmtree(folder / "state"), lambda folder: shutil.rmtree(folder / "data")],
    ids=["a bit", "no state", "no data"],
)  # fmt: skip
def test_a_damaged_one_is_named_and_the_one_before_is_used(checkpoints: OrbaxCheckpointer, harm) -> None:
    functions = functions_of(SMALL)
    state = functions.init()
    for step in (1, 2):
        checkpoints.save(step, state, {"next_index": step}, 1.0)
    checkpoints.wait()
    harm(checkpoints.folder / "2")
    said: list[str] = []
    restored = checkpoints.restore_latest(functions.abstract_state, said.append)
    assert restored is not None
    assert restored.step == 1
    assert_equal(restored.state, state)
    assert "checkpoint of step 2 is damaged" in said[0]
    assert [path.name[0] for path in (checkpoints.folder.parent / "damaged").iterdir()] == ["2"], (
        "nothing is thrown away"
    )
    checkpoints.save(2, state, {"next_index": 2}, 1.0)  # the step comes again
    checkpoints.wait()
    assert checkpoints.steps() == [1, 2]


def test_if_all_are_damaged_it_does_not_begin_anew_in_silence(checkpoints: OrbaxCheckpointer) -> None:
    functions = functions_of(SMALL)
    checkpoints.save(1, functions.init(), {}, 1.0)
    checkpoints.wait()
    damage(checkpoints.folder / "1")
    with pytest.raises(HarnessError, match="No checkpoint"):
        checkpoints.restore_latest(functions.abstract_state, lambda sentence: None)


def test_none_at_all_is_none(checkpoints: OrbaxCheckpointer) -> None:
    assert checkpoints.restore_latest(functions_of(SMALL).abstract_state, print) is None


def test_a_checksum_changes_with_a_bit_and_with_the_order() -> None:
    array = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    flipped = array.copy()
    flipped.view(np.uint32)[3, 2] ^= 1
    swapped = array.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    sums = [int(checksums({"a": value})["a"]) for value in (array, flipped, swapped, array.copy())]
    assert len(set(sums)) == 3
    assert sums[0] == sums[3]


FULL = """
import sys, jax, resource, signal
from pathlib import Path
from dataclasses import replace
from harness.training.checkpoint import OrbaxCheckpointer
from harness.errors import HarnessError
from tests.harness.training.test_checkpoint import SMALL, functions_of
config = replace(SMALL, vocab_size=20_000)
checkpoints = OrbaxCheckpointer(Path(sys.argv[1]))
checkpoints.save(1, functions_of(SMALL).init(), {}, 1.0)
checkpoints.wait()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # as a full disk: no file grows beyond
try:
    checkpoints.save(2, functions_of(config).init(), {}, 1.0)
    checkpoints.wait()
except HarnessError as error:
    print(error)
    sys.exit(7)
"""


def test_a_disk_that_fills_up_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    done = subprocess.run([sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "checkpoint of step 2 could not be saved" in done.stdout
    assert "ERROR:absl" not in done.stderr
    assert "The one of step 1 is whole" in done.stdout
    checkpoints = OrbaxCheckpointer(folder)
    restored = checkpoints.restore_latest(functions_of(SMALL).abstract_state, print)
    checkpoints.close()
    assert restored is not None
    assert restored.step == 1
