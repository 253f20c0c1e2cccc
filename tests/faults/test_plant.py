"""The planted faults can still be planted, the tests that found them are still there, and the table shows the
results."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults import plant
from tests.faults.plant import Fault

pytestmark = pytest.mark.fast

FAULTS = plant.faults()
RESULTS = json.loads(plant.FOUND.read_text(encoding="utf-8"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_and_taken_back(fault: Fault, tmp_path: Path):
    assert len(fault.places()) == 1, "its line must be in its file once"
    assert (ROOT / fault.nearest_tests()[0]).exists()
    assert fault.breaks.endswith(".")
    copy = tmp_path / fault.file
    copy.parent.mkdir(parents=True)
    copy.write_bytes((ROOT / fault.file).read_bytes())
    with fault.planted(tmp_path):
        lines = copy.read_text(encoding="utf-8").splitlines()
        changed = [
            pair
            for pair in zip(lines, (ROOT / fault.file).read_text(encoding="utf-8").splitlines(), strict=True)
            if pair[0] != pair[1]
        ]
        assert [tuple(map(str.strip, pair)) for pair in changed] == [(fault.wrong, fault.line)]
        if copy.suffix == ".py":
            compile(copy.read_text(encoding="utf-8"), fault.file, "exec")
    assert copy.read_bytes() == (ROOT / fault.file).read_bytes()


def test_there_are_sixty_in_all_three_packages():
    assert Counter(fault.package for fault in FAULTS) == {"grader": 29, "harness": 20, "studio": 11}


def test_every_fault_was_found_by_a_test_that_is_still_there():
    assert set(RESULTS) == {fault.name for fault in FAULTS}
    for name, finder in RESULTS.items():
        file, _, function = finder.partition("[")[0].partition("::")
        assert re.search(rf"^(?:async )?def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (
            name
        )


def test_the_table_is_up_to_date():
    assert plant.table(RESULTS) in plant.PAGE.read_text(encoding="utf-8")


def test_an_unknown_fault_is_a_usage_error():
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "no-such-fault"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "no fault is named no-such-fault" in done.stderr) == (2, True)


TREE = {
    "halves/half.py": "def half(n):\n    return n // 2\n",
    "tests/halves/test_half.py": "from halves.half import half\n\n\ndef test_half():\n    assert half({n}) == {half}\n",
}


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ((5, 2), "tests/halves/test_half.py::test_half"),  # the fault rounds up
        ((4, 2), ""),
        ((5, 9), "fails without the fault, too"),
    ],
)
def test_a_test_finds_a_fault_if_it_fails_with_it_and_passes_without(
    numbers: tuple[int, int], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plant, "ROOT", tmp_path)
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(n=numbers[0], half=numbers[1]) if "tests" in name else text)
        for folder in path.relative_to(tmp_path).parents[:-1]:
            (tmp_path / folder / "__init__.py").touch()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    fault = Fault("half", "halves/half.py", "return n // 2", "return (n + 1) // 2", "It rounds up.")
    if found.startswith("fails"):
        with pytest.raises(plant.UnusableError, match=found):
            plant.found_by(fault)
    else:
        assert plant.found_by(fault) == found
