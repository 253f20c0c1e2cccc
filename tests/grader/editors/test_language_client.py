"""The language server as a process, asked by the client of pygls: what an editor with all capabilities gets."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from grader.course import catalog
from grader.course.workspace import Workspace
from tests.conftest import NO_SHIFT, ROOT, misconception_name

PROBLEM = catalog.find("07")
RIGHT = catalog.solution_text(PROBLEM)
CAPABILITIES = types.ClientCapabilities(
    window=types.WindowClientCapabilities(show_document=types.ShowDocumentClientCapabilities(support=True)),
    workspace=types.WorkspaceClientCapabilities(
        code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True)
    ),
)
SECONDS = 240  # to wait for a verdict; a machine may be busy


class Editor:
    """An editor with one file. It keeps what the server sends without being asked."""

    def __init__(self, file: Path) -> None:
        self.file, self.uri = file, types.TextDocumentIdentifier(file.as_uri())
        self.client = LanguageClient("editor", "1")
        self.published: asyncio.Queue[list[types.Diagnostic]] = asyncio.Queue()
        self.messages: list[types.ShowMessageParams] = []
        self.shown: list[types.ShowDocumentParams] = []
        self.refreshed, self.version = 0, 1

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(list(params.diagnostics))

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def message(params: types.ShowMessageParams) -> None:
            self.messages.append(params)

        @self.client.feature(types.WINDOW_SHOW_DOCUMENT)
        def show(params: types.ShowDocumentParams) -> types.ShowDocumentResult:
            self.shown.append(params)
            return types.ShowDocumentResult(success=True)

        @self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def refresh(params: None) -> None:
            self.refreshed += 1

    async def start(self) -> types.ServerCapabilities:
        """Starts the server and opens the file."""
        await self.client.start_io(
            sys.executable, "-P", "-m", "grader", "lsp", env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        answer = await self.client.initialize_async(types.InitializeParams(CAPABILITIES))
        self.client.initialized(types.InitializedParams())
        text = self.file.read_text()
        document = types.TextDocumentItem(self.uri.uri, "python", self.version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        return answer.capabilities

    async def save(self, text: str) -> list[types.Diagnostic]:
        """Types and saves a text, and returns the diagnostics of the verdict on it."""
        self.version += 1
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri.uri)
        whole = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, whole))
        self.file.write_text(text)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(self.uri))
        return await asyncio.wait_for(self.published.get(), SECONDS)

    async def run(self, command: str, file: Path | None = None) -> None:
        arguments = [(file or self.file).as_uri()]
        await self.client.workspace_execute_command_async(types.ExecuteCommandParams(f"gpt-kata.{command}", arguments))

    async def hover(self, line: int, character: int) -> str:
        position = types.Position(line, character)
        found = await self.client.text_document_hover_async(types.HoverParams(self.uri, position))
        return found.contents.value if found else ""

    async def actions(self, *diagnostics: types.Diagnostic) -> list[types.Command | types.CodeAction]:
        context = types.CodeActionContext([*diagnostics])
        lines = types.Range(types.Position(0, 0), types.Position(0, 0))
        params = types.CodeActionParams(self.uri, lines, context)
        return list(await self.client.text_document_code_action_async(params) or ())

    async def end(self) -> int | None:
        """Ends the server as the protocol says. Returns its exit code."""
        await self.client.shutdown_async(None)
        self.client.exit(None)
        server = self.client._server
        code = await asyncio.wait_for(server.wait(), 60)
        await self.client.stop()
        return code


def test_a_whole_conversation(tmp_path: Path, lender: str, monkeypatch: pytest.MonkeyPatch):
    """One server for all of it, because its start takes a second."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", lender)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    space = Workspace(tmp_path / "attempts")
    space.start()
    file = space.file(PROBLEM)

    async def converse() -> None:
        editor = Editor(file)
        can = await editor.start()
        assert can.code_lens_provider
        assert can.hover_provider
        assert can.code_action_provider
        assert {f"gpt-kata.{name}" for name in ("hint", "play", "page", "report", "try")} == set(
            can.execute_command_provider.commands
        )

        (diagnostic,) = await editor.save(RIGHT.replace("token_ids[1:]", "token_ids[:-1]"))
        name, row = misconception_name("07", NO_SHIFT), diagnostic.range.start.line
        assert diagnostic.severity is types.DiagnosticSeverity.Error
        assert diagnostic.message.startswith(f"{name}. shifted by one: ")
        assert diagnostic.source == "grade"
        assert diagnostic.related_information[0].location.uri == file.as_uri()
        assert file.read_text().splitlines()[row].startswith("def next_token_loss(")
        assert space.progress()[PROBLEM.name].attempted, "the verdict is recorded"

        lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(editor.uri))
        assert [(lens.command.title, lens.command.command) for lens in lenses] == [
            ("1 of 6 points, fail", "gpt-kata.report"),
            ("hint", "gpt-kata.hint"),
            ("play", "gpt-kata.play"),
            ("page", "gpt-kata.page"),
        ]
        assert {lens.range.start.line for lens in lenses} == {row}
        assert editor.refreshed == 1, "the server asks for it before it answers anything else"
        assert "def next_token_loss(logits: Float[Array, 'T V']" in await editor.hover(row, 6)
        assert await editor.hover(0, 0) == ""
        (action,) = await editor.actions(diagnostic)
        assert await editor.actions() == [], "at a place without a finding"
        assert action.title == "Try this case: write a script"
        assert "gpt-kata.try" in action.command  # pygls reads any action with a command as a bare command

        await editor.run("hint")
        assert editor.messages[-1].type is types.MessageType.Info
        assert editor.messages[-1].message.startswith("Hint 1 of 4: ")
        assert space.hints_seen(PROBLEM) == 1
        for command in ("report", "page", "try"):
            await editor.run(command)
        report, page, script = editor.shown
        assert report.external
        html = Path(report.uri.removeprefix("file://")).read_text()
        assert f"Likely cause: {name}" in html
        assert "default-src 'none'" in html
        assert page.uri == (space.folder / "pages" / f"{PROBLEM.name}.md").as_uri()
        assert script.uri == (space.folder / "try_p07.py").as_uri()
        assert not script.external

        await editor.run("hint", space.folder / "notes.py")
        assert editor.messages[-1].type is types.MessageType.Error
        assert editor.messages[-1].message == "notes.py is not the file of a problem of this course."

        (to_do,) = await editor.save(catalog.stub_text(PROBLEM))
        assert await editor.actions(to_do) == []
        assert await editor.save(RIGHT) == []
        assert space.progress()[PROBLEM.name].verdict == "PASS"
        assert await editor.end() == 0
        assert not Path(report.uri.removeprefix("file://")).exists(), "what was shown is removed at the end"

    asyncio.run(converse())
