"""The language server, driven by the client of a real editor: Debian's Neovim, without a screen."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.editors.language import Learner
from grader.report import findings
from tests.conftest import NO_SHIFT, ROOT, misconception_name

DRIVER = """
local program, file, out = unpack(vim.fn.json_decode(vim.env.DRIVEN))
local shown, messages = {}, {}
vim.lsp.handlers['textDocument/publishDiagnostics'] = function(_, result) shown[#shown + 1] = result end
vim.lsp.handlers['window/showMessage'] = function(_, result) messages[#messages + 1] = result.message end
vim.cmd('edit ' .. file)
local client = vim.lsp.start_client({name = 'grade', cmd = program, root_dir = vim.fn.fnamemodify(file, ':h')})
vim.lsp.buf_attach_client(0, client)
vim.wait(60000, function() return vim.lsp.get_client_by_id(client) and vim.lsp.get_client_by_id(client).initialized end)
vim.cmd('write')
vim.wait(240000, function() return #shown > 0 end)
local uri = {uri = vim.uri_from_fname(file)}
local function ask(method, params)
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  return answers and answers[client] and answers[client].result
end
local row = shown[1] and shown[1].diagnostics[1] and shown[1].diagnostics[1].range.start.line or 0
local lenses = ask('textDocument/codeLens', {textDocument = uri})
local hover = ask('textDocument/hover', {textDocument = uri,
    position = {line = lenses[1].range.start.line, character = 6}})
local actions = ask('textDocument/codeAction', {textDocument = uri, range = shown[1].diagnostics[1].range,
  context = {diagnostics = shown[1].diagnostics}})
ask('workspace/executeCommand', {command = 'gpt-kata.hint', arguments = {uri.uri}})
ask('workspace/executeCommand', {command = 'gpt-kata.try', arguments = {uri.uri}})
vim.wait(60000, function() return #messages > 1 end)
vim.fn.writefile({vim.fn.json_encode({shown = shown, lenses = lenses, hover = hover, actions = actions,
  messages = messages})}, out)
vim.cmd('qall!')
"""


@pytest.mark.skipif(not shutil.which("nvim"), reason="needs Neovim")
def test_neovim_shows_the_verdict_at_the_line(tmp_path: Path, lender: str):
    home = tmp_path / "attempts"
    home.mkdir()
    Workspace(home).add(catalog.find("07"))
    (home / ".progress.jsonl").touch()
    file = home / "p07_next_token_loss.py"
    file.write_text(
        (ROOT / "solutions" / "p07_next_token_loss.py").read_text().replace("token_ids[1:]", "token_ids[:-1]")
    )
    (tmp_path / "driver.lua").write_text(DRIVER)
    out = tmp_path / "out.json"
    driven = json.dumps([[sys.executable, "-m", "grader", "lsp"], str(file), str(out)])
    environment = {
        **os.environ, "DRIVEN": driven, "PYTHONPATH": str(ROOT), "XDG_RUNTIME_DIR": lender, "HOME": str(tmp_path),
    }  # fmt: skip
    command = ["nvim", "--headless", "-u", "NONE", "-n", "-c", f"luafile {tmp_path / 'driver.lua'}"]
    run = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=600, check=False)
    assert out.exists(), run.stderr
    seen = json.loads(out.read_text())

    (diagnostic,) = seen["shown"][0]["diagnostics"]
    name = misconception_name("07", NO_SHIFT)
    assert diagnostic["message"].startswith(f"{name}. shifted by one: ")
    assert diagnostic["source"] == "grade"
    assert file.read_text().splitlines()[diagnostic["range"]["start"]["line"]].startswith("def next_token_loss(")
    assert "must predict token t+1" in diagnostic["relatedInformation"][0]["message"]
    titles = [lens["command"]["title"] for lens in seen["lenses"]]
    assert titles == ["1 of 6 points, fail", "hint", "play", "page"]
    assert "def next_token_loss(logits: Float[Array, 'T V']" in seen["hover"]["contents"]["value"]
    assert seen["actions"][0]["command"]["command"] == "gpt-kata.try"
    assert seen["messages"][0].startswith("Hint 1 of 4: ")
    assert seen["messages"][1] == f"Open {home / 'try_p07.py'}"
    assert "shifted by one" in (home / "try_p07.py").read_text()


@pytest.fixture
def learner(lender: str, monkeypatch: pytest.MonkeyPatch) -> Learner:
    monkeypatch.setenv("XDG_RUNTIME_DIR", lender)
    return Learner()


@pytest.mark.parametrize(
    ("number", "find", "replace", "line"),
    [
        ("07", "token_ids[1:]", "token_ids[1:] + undefined_name", "undefined_name"),
    ],
)
def test_a_finding_is_at_the_line_that_matters(learner: Learner, tmp_path: Path, number, find, replace, line):
    problem = catalog.find(number)
    for name, text in catalog.reference_sources(problem).items():
        (tmp_path / f"{name}.py").write_text(text)
    path = tmp_path / f"{problem.name}.py"
    text = path.read_text()
    assert find in text
    path.write_text(text.replace(find, replace))
    report = learner.grade(path).result()
    (finding,) = findings.of(report, path)
    assert line in path.read_text().splitlines()[finding.line - 1]
    assert [learner.hint(path)[:6] for _ in range(2)] == ["Hint 1", "Hint 2"]
    assert not (tmp_path / ".progress.jsonl").exists(), "a folder that is no workspace gets no log"


def test_a_stub_and_a_file_that_passes(learner: Learner, tmp_path: Path):
    problem = catalog.find("02")
    path = Workspace(tmp_path).add(problem)
    (finding,) = findings.of(learner.grade(path).result(), path)
    assert finding.passed_over
    path.write_text(catalog.solution_text(problem))
    assert findings.of(learner.grade(path).result(), path) == []
    assert learner.problem(tmp_path / "other.py") is None
    assert learner.hover(path, "softmax") == ""
