"""Checkpoints are restored bit for bit, onto any mesh; corrupt ones are reported."""

import gc
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from harness.config import Config
from harness.errors import HarnessError
from harness.run.run_session import ignore
from harness.training.checkpoint import JSON_CHECKSUMS, OrbaxCheckpointer, best_step, checksums
from harness.training.sharding import by_dotted_name, make_mesh
from harness.training.train_step import StepFunctions, make_step_functions
from tests.harness.conftest import TINY

SMALL = replace(TINY, vocab_size=96, context=12)

# After a failed save, the storage leaves resources open.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(autouse=True, scope="module")
def collect_garbage() -> Iterator[None]:
    """Collects such resources here, so that their warnings do not fail another test."""
    yield
    gc.collect()


def functions_of(config: Config) -> StepFunctions:
    return make_step_functions(config, make_mesh(config))


@pytest.fixture
def checkpointer(tmp_path: Path) -> Iterator[OrbaxCheckpointer]:
    opened = OrbaxCheckpointer(tmp_path / "run" / "checkpoints")
    yield opened
    opened.close()


def assert_equal(a: object, b: object) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_saved_state_is_restored(checkpointer: OrbaxCheckpointer) -> None:
    functions = functions_of(SMALL)
    state = functions.init()
    checkpointer.save(3, state, {"next_index": 3}, 1.5)
    checkpointer.wait()
    step, restored, data = checkpointer.restore(3, functions.abstract_state)
    assert (step, data) == (3, {"next_index": 3})
    assert_equal(state, restored)


@pytest.mark.parametrize(
    ("saved", "wanted"),
    [
        ("4x2", "2x2"),
        *(pytest.param(*meshes, marks=pytest.mark.thorough) for meshes in (("4x2", "1x1"), ("1x1", "8x1"))),
    ],
)
def test_a_state_is_restored_onto_another_mesh(checkpointer: OrbaxCheckpointer, saved: str, wanted: str) -> None:
    state = functions_of(replace(SMALL, mesh=saved, fsdp=True)).init()
    checkpointer.save(1, state, {}, None)
    checkpointer.wait()
    functions = functions_of(replace(SMALL, mesh=wanted, fsdp=True))
    _, restored, _ = checkpointer.restore(1, functions.abstract_state)
    assert_equal(state, restored)
    for leaf, shape in zip(jax.tree.leaves(restored), jax.tree.leaves(functions.abstract_state), strict=True):
        assert leaf.sharding.is_equivalent_to(shape.sharding, leaf.ndim)


def test_the_last_two_and_the_best_are_kept(checkpointer: OrbaxCheckpointer) -> None:
    state = functions_of(SMALL).init()
    for step, loss in enumerate([3.0, 1.0, 2.0, 2.5, None], start=1):
        checkpointer.save(step, state, {}, loss)
        checkpointer.wait()
    assert [*checkpointer.losses()] == [2, 4, 5]
    assert best_step(checkpointer.losses()) == 2


@pytest.mark.parametrize(
    ("losses", "kept"),
    [
        ([1.0, 0.5, nan, nan, nan, nan], [2, 5, 6]),
        ([0.5, 1.0, inf, nan, nan], [1, 2, 4, 5]),
        pytest.param([nan, nan, nan], [2, 3], marks=pytest.mark.thorough),
        pytest.param([1.0, nan, 2.0], [1, 2, 3], marks=pytest.mark.thorough),
    ],
)
def test_a_loss_that_is_not_finite_is_never_best_and_the_last_good_one_is_kept(
    checkpointer: OrbaxCheckpointer, losses: list[float], kept: list[int]
) -> None:
    state = functions_of(SMALL).init()
    for step, loss in enumerate(losses, start=1):
        checkpointer.save(step, state, {}, loss)
        checkpointer.wait()
    assert [*checkpointer.losses()] == kept
    finite = {step: loss for step, loss in enumerate(losses, start=1) if math.isfinite(loss)}
    assert best_step(checkpointer.losses()) == min(finite, key=lambda step: finite[step], default=kept[-1])


def test_a_run_goes_back_to_the_last_good_checkpoint(checkpointer: OrbaxCheckpointer) -> None:
    functions = functions_of(SMALL)
    for step, loss in enumerate([1.0, 2.0, nan, nan], start=1):
        checkpointer.save(step, functions.init(), {"next_index": step}, loss)
        checkpointer.wait()
    messages: list[str] = []
    restored = checkpointer.restore_latest(functions.abstract_state, messages.append)
    assert restored is not None
    assert (restored.step, restored.data) == (2, {"next_index": 2})
    assert "The loss of step 3 was not finite: going back to the checkpoint of step 2." in messages[0]
    damaged = checkpointer.folder.parent / "damaged"
    assert sorted(path.name[0] for path in damaged.iterdir()) == ["3", "4"], "nothing is deleted"
    checkpointer.save(3, functions.init(), {}, 1.5)  # the step is repeated
    checkpointer.wait()
    assert [*checkpointer.losses()] == [1, 2, 3]


def test_without_a_good_checkpoint_a_run_does_not_start_over(checkpointer: OrbaxCheckpointer) -> None:
    functions = functions_of(SMALL)
    checkpointer.save(1, functions.init(), {}, nan)
    checkpointer.wait()
    with pytest.raises(HarnessError, match=r"The loss of every checkpoint in .* is not finite"):
        checkpointer.restore_latest(functions.abstract_state, ignore)


def test_a_model_of_another_width_is_rejected(checkpointer: OrbaxCheckpointer) -> None:
    checkpointer.save(1, functions_of(SMALL).init(), {}, 1.0)
    checkpointer.wait()
    with pytest.raises(ValueError, match=r"it cannot be read|does not match"):
        checkpointer.restore(1, functions_of(replace(SMALL, d_model=24)).abstract_state)


@pytest.mark.parametrize("lost", [False, True])
def test_an_array_without_a_checksum_is_not_believed(checkpointer: OrbaxCheckpointer, lost: bool) -> None:
    """In a checkpoint of an older version, whose checksums are a file of text."""
    functions = functions_of(SMALL)
    state = functions.init()
    arrays = by_dotted_name(state)
    sums = {name: int(value) for name, value in checksums(arrays).items()}
    if lost:
        del sums["0.embed"]
    saved = ocp.args.Composite(
        state=ocp.args.PyTreeSave(arrays),
        data=ocp.args.JsonSave({}),
        **{JSON_CHECKSUMS: ocp.args.JsonSave(sums)},
    )
    with ocp.CheckpointManager(checkpointer.folder, item_names=("state", "data", JSON_CHECKSUMS)) as older:
        older.save(1, args=saved)
        older.wait_until_finished()
    reader = OrbaxCheckpointer(checkpointer.folder, read_only=True)
    if lost:
        with pytest.raises(ValueError, match=r"the checksum of 0\.embed does not match"):
            reader.restore(1, functions.abstract_state)
    else:
        assert_equal(reader.restore(1, functions.abstract_state).state, state)
    reader.close()


def damage(folder: Path) -> None:
    """Flips one bit in the middle of the largest array file (Orbax stores these in folders `d`)."""
    largest = max(folder.rglob("d/*"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0x10
    largest.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "corrupt", [damage, lambda folder: shutil.rmtree(folder / "state"), lambda folder: shutil.rmtree(folder / "data")],
    ids=["one bit", "no state", "no data"],
)  # fmt: skip
def test_a_corrupt_checkpoint_is_reported_and_the_previous_one_used(checkpointer: OrbaxCheckpointer, corrupt) -> None:
    functions = functions_of(SMALL)
    state = functions.init()
    for step in (1, 2):
        checkpointer.save(step, state, {"next_index": step}, 1.0)
    checkpointer.wait()
    corrupt(checkpointer.folder / "2")
    messages: list[str] = []
    restored = checkpointer.restore_latest(functions.abstract_state, messages.append)
    assert restored is not None
    assert restored.step == 1
    assert_equal(restored.state, state)
    assert "checkpoint of step 2 is corrupt" in messages[0]
    assert [path.name[0] for path in (checkpointer.folder.parent / "damaged").iterdir()] == ["2"], "nothing is deleted"
    checkpointer.save(2, state, {"next_index": 2}, 1.0)  # the step is repeated
    checkpointer.wait()
    assert [*checkpointer.losses()] == [1, 2]


@pytest.mark.thorough
def test_if_all_are_corrupt_the_run_does_not_start_over(checkpointer: OrbaxCheckpointer) -> None:
    functions = functions_of(SMALL)
    checkpointer.save(1, functions.init(), {}, 1.0)
    checkpointer.wait()
    damage(checkpointer.folder / "1")
    with pytest.raises(HarnessError, match="No checkpoint"):
        checkpointer.restore_latest(functions.abstract_state, ignore)


def test_without_checkpoints_the_latest_is_none(checkpointer: OrbaxCheckpointer) -> None:
    assert checkpointer.restore_latest(functions_of(SMALL).abstract_state, print) is None


def test_typed_keys_are_stored_and_checked(checkpointer: OrbaxCheckpointer) -> None:
    state = {"key": jax.random.key(3), "keys": jax.random.split(jax.random.key(4), 3), "x": jax.numpy.ones(2)}
    checkpointer.save(1, state, {}, None)
    checkpointer.wait()
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    abstract = {name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device) for name, leaf in state.items()}
    restored = checkpointer.restore(1, abstract).state
    assert {name: leaf.dtype for name, leaf in restored.items()} == {name: leaf.dtype for name, leaf in state.items()}
    assert_equal(jax.random.key_data(state["keys"]), jax.random.key_data(restored["keys"]))
    assert jax.random.uniform(restored["key"]) == jax.random.uniform(state["key"])


def test_a_checksum_depends_on_every_bit_and_on_the_order() -> None:
    array = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    flipped = array.copy()
    flipped.view(np.uint32)[3, 2] ^= 1
    swapped = array.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    values = map(jax.numpy.asarray, (array, flipped, swapped, array.copy()))
    sums = [int(checksums({"a": value})["a"]) for value in values]
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
checkpointer = OrbaxCheckpointer(Path(sys.argv[1]))
checkpointer.save(1, functions_of(SMALL).init(), {}, 1.0)
checkpointer.wait()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # like a full disk: no file can grow beyond this
try:
    checkpointer.save(2, functions_of(config).init(), {}, 1.0)
    checkpointer.wait()
except HarnessError as error:
    print(error)
    sys.exit(7)
"""


def test_a_full_disk_leaves_the_previous_checkpoint_intact(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    done = subprocess.run([sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "checkpoint of step 2 could not be saved" in done.stdout
    assert done.stderr == ""
    assert "The checkpoint of step 1 is intact" in done.stdout
    checkpointer = OrbaxCheckpointer(folder)
    restored = checkpointer.restore_latest(functions_of(SMALL).abstract_state, print)
    checkpointer.close()
    assert restored is not None
    assert restored.step == 1
