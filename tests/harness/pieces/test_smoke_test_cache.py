"""Smoke tests that have passed are not run again for the same files, and only for those."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from harness.errors import PieceError
from harness.pieces import smoke_test_cache
from harness.pieces.load import Pieces, load_pieces
from tests.conftest import ROOT

# It is called once in each smoke test.
LOSS = """
from pathlib import Path
import jax.numpy as jnp

def next_token_loss(logits, ids, pad_id):
    with Path({log!r}).open("a") as log:
        log.write("called\\n")
    return jnp.mean(logits)
"""
STUBS = ["warmup_cosine", "warmup_stable_decay"]
STUB = (ROOT / "problems" / "p10_lr_schedule" / "stub.py").read_text()


class Workspace:
    """A workspace with one piece and one stub. `load` loads it as a new process does; `calls` counts the smoke
    tests."""

    def __init__(self, folder: Path, log: Path):
        self.folder, self._log = folder, log
        folder.mkdir()
        self.loss = folder / "p07_next_token_loss.py"
        self.loss.write_text(LOSS.format(log=str(log)))
        (folder / "p10_lr_schedule.py").write_text(STUB)

    @property
    def calls(self) -> int:
        return len(self._log.read_text().splitlines())

    def load(self, *, is_new: bool = True) -> Pieces:
        if is_new:
            forget_modules()
        return load_pieces(self.folder)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is remembered; that of the test run holds the results of other tests."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pieces"


@pytest.fixture
def mine(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = forget_modules()
    yield Workspace(tmp_path / "attempts", tmp_path / "log")
    forget_modules()
    sys.modules.update(before)


def forget_modules() -> dict[str, ModuleType]:
    """Removes and returns the modules of workspaces."""
    names = [name for name in sys.modules if re.match(r"p\d\d_|parts\b", name)]
    return {name: sys.modules.pop(name) for name in names}


def test_the_same_files_are_tested_once(mine: Workspace) -> None:
    first, second = mine.load(), mine.load()
    assert mine.calls == 1
    assert set(first.by_name) == set(second.by_name) == {"next_token_loss"}
    assert first.stubs == second.stubs == STUBS
    assert first.digest == second.digest


def test_files_with_the_same_text_in_another_folder_are_the_same(mine: Workspace, tmp_path: Path) -> None:
    mine.load()
    copy = Workspace(tmp_path / "copy", tmp_path / "log")
    mine.loss.unlink()  # which would be imported
    assert copy.load().stubs == STUBS
    assert mine.calls == 1


def test_a_changed_file_is_tested_and_so_is_what_may_import_it(mine: Workspace) -> None:
    mine.load()
    for file in (mine.loss, mine.folder / "p10_lr_schedule.py", mine.folder / "mine.py"):
        calls = mine.calls
        with file.open("a") as end:
            end.write("\n# another\n")
        mine.load()
        mine.load()
        assert mine.calls == calls + 1, file


def test_a_stub_that_is_filled_in_is_tested(mine: Workspace) -> None:
    mine.load()
    (mine.folder / "p10_lr_schedule.py").write_text("def warmup_cosine(*args):\n    return lambda step: None\n")
    with pytest.raises(PieceError, match="warmup_cosine"):
        mine.load()


def test_a_broken_piece_is_reported_each_time(mine: Workspace, cache: Path) -> None:
    mine.loss.write_text(mine.loss.read_text().replace("jnp.mean(logits)", "logits"))
    for _ in range(2):
        with pytest.raises(PieceError, match=r"next_token_loss .* returned float32\[5, 11\]"):
            mine.load()
    assert not cache.exists()


def test_a_module_in_a_subfolder_counts(mine: Workspace) -> None:
    parts = mine.folder / "parts"
    parts.mkdir()
    (parts / "helper.py").write_text("SCALE = 1.0\n")
    mine.loss.write_text(
        f"from parts import helper\n{mine.loss.read_text()}".replace("(logits)", "(logits) * helper.SCALE")
    )
    mine.load()
    mine.load()
    assert mine.calls == 1
    (parts / "helper.py").write_text("SCALE = float('nan')\n")
    with pytest.raises(PieceError, match="not finite"):
        mine.load()


def test_what_is_imported_during_the_test_is_not_known_before(mine: Workspace, cache: Path) -> None:
    (mine.folder / "parts").mkdir()
    (mine.folder / "parts" / "helper.py").write_text("SCALE = 1.0\n")
    text = mine.loss.read_text()
    mine.loss.write_text(text.replace("    return", "    from parts import helper\n    return"))
    for times in (1, 2):
        mine.load()
        assert mine.calls == times
    assert not cache.exists()


def test_modules_that_were_imported_before_may_be_of_another_file(mine: Workspace, cache: Path) -> None:
    mine.load()
    mine.loss.write_text(mine.loss.read_text().replace("jnp.mean(logits)", "logits"))
    mine.load(is_new=False)
    with pytest.raises(PieceError, match="returned float32"):
        mine.load()


@pytest.mark.parametrize(
    "content", [b"", b"null", b"{", b"\xff", b'["nothing"]', b"[[]]", b'{"warmup_cosine": 1}', b"1"]
)
def test_a_damaged_entry_is_ignored_and_replaced(mine: Workspace, cache: Path, content: bytes) -> None:
    mine.load()
    (entry,) = cache.iterdir()
    entry.write_bytes(content)
    assert mine.load().stubs == STUBS
    assert mine.calls == 2
    mine.load()
    assert mine.calls == 2


def test_versions_settings_and_the_code_of_the_harness_count(
    mine: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine.load()
    monkeypatch.setenv("NNX_GRAPH_MODE", "1")
    mine.load()
    assert mine.calls == 2
    monkeypatch.setattr(smoke_test_cache, "version", lambda package: f"a later one of {package}")
    mine.load()
    assert mine.calls == 3
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "smoke_tests.py").touch()
    monkeypatch.setattr(smoke_test_cache, "_CODE", tmp_path / "code")
    mine.load()
    mine.load()
    assert mine.calls == 4


def test_without_a_cache_all_is_tested(mine: Workspace, cache: Path) -> None:
    cache.parent.touch()  # a file is no folder
    mine.load()
    assert mine.load().stubs == STUBS
    assert mine.calls == 2


def test_old_entries_are_removed(cache: Path) -> None:
    for number in range(smoke_test_cache.MOST + 5):
        smoke_test_cache.remember(f"key-{number}", [])
    assert len(list(cache.iterdir())) == smoke_test_cache.MOST
    assert smoke_test_cache.recall(f"key-{smoke_test_cache.MOST + 4}", ()) == []
