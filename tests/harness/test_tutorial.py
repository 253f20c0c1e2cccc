"""Runs all commands of docs/harness.md in order, with a tiny model."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from harness.run.folder import Run
from tests.conftest import ROOT, Grade
from tests.harness.conftest import Harness

TEXT = (ROOT / "docs" / "harness.md").read_text()
SMALL = (
    "--steps 2 --set data=pocket:200 --set context=16 --set d_model=16 --set num_heads=2 --set d_ff=16 --set "
    "num_layers=1"
)
# What makes each command take a second instead of minutes.
QUICK = {
    "train": SMALL,
    "finetune": "--steps 2",
    "rl": "--steps 1 --prompts 2 --group 2 --set prompt_tokens=3",
    "sample": "--max-tokens 3",
}


@pytest.mark.thorough  # ten commands, two minutes
def test_every_command_works(harness: Harness, grade: Grade, tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert {"train", "sample", "chat", "eval", "finetune", "rl", "export"} <= {arguments[1] for arguments in commands}
    page = tmp_path / "problems" / "p01_token_embedding" / "page.md"
    page.parent.mkdir(parents=True)
    shutil.copy(ROOT / "problems" / "p01_token_embedding" / "page.md", page)
    printed: dict[str, str] = {}
    for program, *arguments in commands:
        if program == "grade":
            run = grade(*arguments, cwd=tmp_path)
            # One problem is solved.
            shutil.copy(ROOT / "solutions" / "p07_next_token_loss.py", tmp_path / "attempts")
        else:
            run = harness(*arguments, *QUICK.get(arguments[0], "").split())
        assert run.code == 0, (arguments, run.out, run.err)
        printed[shlex.join(arguments)] = run.out + run.err
    assert "resuming at step 2 of 2" in printed["train"]
    assert "next_token_loss" in printed["train --run mine --pieces attempts"]
    for name, steps in {"pocket": 2, "mine": 2, "pocket-tuned": 2, "pocket-rl": 1}.items():
        assert [line["step"] for line in Run(tmp_path / "runs" / name).metrics()][-1] == steps, name
    assert (tmp_path / "stories" / "model.safetensors").is_file()
