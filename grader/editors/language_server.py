"""`grade lsp`: the verdict on a learner's file in an editor, over the Language Server Protocol. Sends nothing anywhere
else."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from commandline.errors import CommandError
from commandline.invocation import as_typed
from grader.editors.language import Learner
from grader.report import findings
from grader.report.findings import Finding

HINT, PLAY, PAGE, REPORT, TRY = (f"gpt-kata.{name}" for name in ("hint", "play", "page", "report", "try"))


def server() -> LanguageServer:
    """Returns the server, for the files of any workspace of the selected course."""
    learner, showing = Learner(), asyncio.Lock()
    made = LanguageServer("gpt-kata", version("gpt-kata"))

    def tell(text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        made.window_show_message(types.ShowMessageParams(type=kind, message=text))

    async def told(work: Callable[..., Any], *args: Any) -> Any:
        """Calls `work` in a thread and returns its result, or the result of the future that it returns. Shows its
        errors to the learner, and then returns None."""
        try:
            made = await asyncio.to_thread(work, *args)
            return await asyncio.wrap_future(made) if isinstance(made, Future) else made
        except CommandError as error:
            tell(as_typed(str(error)), types.MessageType.Error)
            return None

    async def open_file(path: Path, *, external: bool = False) -> None:
        capabilities = made.client_capabilities.window
        if capabilities and capabilities.show_document and capabilities.show_document.support:
            shown = types.ShowDocumentParams(uri=path.as_uri(), external=external, take_focus=True)
            await made.window_show_document_async(shown)
        else:
            tell(f"Open {path}")

    @made.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        path = _path(params.text_document.uri)
        if learner.problem(path) is None:
            return
        report = await told(learner.grade, path)
        if report is not None:
            shown = [_diagnostic(each) for each in findings.of(report, path)]
            made.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(params.text_document.uri, diagnostics=shown)
            )
            workspace = made.client_capabilities.workspace
            if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
                await made.workspace_code_lens_refresh_async(None)

    @made.feature(types.TEXT_DOCUMENT_CODE_LENS)
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        if learner.problem(_path(uri)) is None:
            return []
        line, points = learner.points(_path(uri))
        titles = {points: REPORT, "hint": HINT, "play": PLAY, "page": PAGE}
        return [
            types.CodeLens(_line(line), types.Command(title, command, arguments=[uri]))
            for title, command in titles.items()
        ]

    @made.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        word = made.workspace.get_text_document(uri).word_at_position(params.position)
        text = learner.hover(_path(uri), word)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None

    @made.feature(types.TEXT_DOCUMENT_CODE_ACTION)
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        of_grader = [each for each in params.context.diagnostics if each.source == "grade"]
        if not (of_grader and learner.has_failing_case(_path(uri))):
            return []
        command = types.Command("Try this case", TRY, arguments=[uri])
        return [
            types.CodeAction("Try this case: write a script", types.CodeActionKind.QuickFix, of_grader, command=command)
        ]

    @made.command(HINT)
    async def hint(uri: str) -> None:
        if text := await told(learner.hint, _path(uri)):
            tell(text)

    @made.command(PAGE)
    async def page(uri: str) -> None:
        if path := await told(learner.page, _path(uri)):
            await open_file(path)

    async def show(make: Callable[[Path], Path], uri: str, *, external: bool) -> None:
        """Shows a file that is made, one after the other."""
        async with showing:
            path = await told(make, _path(uri))
        if path:
            await open_file(path, external=external)

    @made.command(PLAY)
    async def play(uri: str) -> None:
        await show(learner.play, uri, external=True)

    @made.command(REPORT)
    async def report(uri: str) -> None:
        await show(learner.report, uri, external=True)

    @made.command(TRY)
    async def script(uri: str) -> None:
        await show(learner.script, uri, external=False)

    @made.feature(types.SHUTDOWN)
    def end(params: None) -> None:
        learner.close()

    return made


def _diagnostic(finding: Finding) -> types.Diagnostic:
    related = [
        types.DiagnosticRelatedInformation(types.Location(path.as_uri(), _line(line)), text)
        for path, line, text in finding.related
    ]
    kind = types.DiagnosticSeverity.Information if finding.passed_over else types.DiagnosticSeverity.Error
    return types.Diagnostic(
        _line(finding.line), finding.message, kind, finding.code, source="grade", related_information=related
    )


def _line(number: int) -> types.Range:
    """Returns a whole line, by its number from 1."""
    return types.Range(types.Position(number - 1, 0), types.Position(number - 1, 1000))


def _path(uri: str) -> Path:
    return Path(uris.to_fs_path(uri) or "").absolute()


def serve() -> None:
    """Serves one editor until it closes standard input."""
    server().start_io()
