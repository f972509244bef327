"""An editor for tests: a real client of `memlint lsp` in a process of its own, with the files of a folder."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

TIMEOUT = 60  # seconds; a test fails then instead of waiting for ever


class Editor:
    """What a person does in an editor, and what they see."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str | None = None) -> None:
        """Opens a file; with another `text` than the file's it is unsaved."""
        self.texts[name] = (self.folder / name).read_text(encoding="utf-8") if text is None else text
        self._versions[name] = 0
        item = types.TextDocumentItem(self.uri(name), "yaml", 0, self.texts[name])
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, name: str, text: str) -> None:
        """Replaces the text of an open file."""
        self.texts[name] = text
        self._versions[name] += 1
        document = types.VersionedTextDocumentIdentifier(self._versions[name], self.uri(name))
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def replace(self, name: str, old: str, new: str) -> None:
        assert old in self.texts[name]
        self.type(name, self.texts[name].replace(old, new, 1))

    def close(self, name: str) -> None:
        item = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(item))

    def save(self, name: str) -> None:
        (self.folder / name).write_text(self.texts[name], encoding="utf-8")
        item = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(item))

    def write(self, name: str, text: str, kind: types.FileChangeType = types.FileChangeType.Changed) -> None:
        """Another program writes a file."""
        (self.folder / name).write_text(text, encoding="utf-8")
        event = types.FileEvent(self.uri(name), kind)
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    def place(self, name: str, words: str) -> types.Position:
        """The position in the middle of `words` (ASCII lines)."""
        offset = self.texts[name].index(words) + len(words) // 2
        before = self.texts[name][:offset]
        return types.Position(before.count("\n"), offset - (before.rfind("\n") + 1))

    async def lenses(self, name: str) -> list[str]:
        """The titles of the code lenses; the answer waits for the check of the newest text."""
        params = types.CodeLensParams(types.TextDocumentIdentifier(self.uri(name)))
        found = await asyncio.wait_for(self.client.text_document_code_lens_async(params), TIMEOUT)
        return [one.command.title for one in found or () if one.command]

    async def findings(self, name: str) -> list[types.Diagnostic]:
        """The diagnostics of the newest text."""
        await self.lenses(name)
        return list(self.client.diagnostics.get(self.uri(name), ()))

    async def rules(self, name: str) -> list[str]:
        return sorted(str(one.code) for one in await self.findings(name))

    async def hover(self, name: str, words: str) -> str:
        document = types.TextDocumentIdentifier(self.uri(name))
        params = types.HoverParams(document, self.place(name, words))
        found = await asyncio.wait_for(self.client.text_document_hover_async(params), TIMEOUT)
        return found.contents.value if found and isinstance(found.contents, types.MarkupContent) else ""

    async def actions(self, name: str, line: int) -> dict[str, types.CodeAction | types.Command]:
        """The code actions of a line, from 0, by title; the client library reads one with a command as that command."""
        place = types.Range(types.Position(line, 0), types.Position(line, 0))
        document = types.TextDocumentIdentifier(self.uri(name))
        params = types.CodeActionParams(document, place, types.CodeActionContext([]))
        found = await asyncio.wait_for(self.client.text_document_code_action_async(params), TIMEOUT)
        return {one.title: one for one in found or ()}

    async def complete(self, name: str, position: types.Position) -> dict[str, types.CompletionItem]:
        document = types.TextDocumentIdentifier(self.uri(name))
        params = types.CompletionParams(document, position)
        found = await asyncio.wait_for(self.client.text_document_completion_async(params), TIMEOUT)
        items = found.items if isinstance(found, types.CompletionList) else found or ()
        return {item.label: item for item in items}

    async def command(self, name: str, *arguments: Any) -> Any:
        params = types.ExecuteCommandParams(name, list(arguments))
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), TIMEOUT)

    def apply(self, edit: types.WorkspaceEdit) -> None:
        """Makes the changes of a code action in the open documents."""
        for change in edit.document_changes or ():
            assert isinstance(change, types.TextDocumentEdit)
            name = next(name for name in self.texts if self.uri(name) == change.text_document.uri)
            text = self.texts[name]
            for one in sorted(change.edits, key=lambda item: _key(item.range.start), reverse=True):
                assert isinstance(one, types.TextEdit)
                text = text[: _offset(text, one.range.start)] + one.new_text + text[_offset(text, one.range.end) :]
            self.type(name, text)

    @property
    def log(self) -> str:
        return "\n".join(one.message for one in self.client.log_messages)


def _key(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def _offset(text: str, position: types.Position) -> int:
    """UTF-16, as an editor has it."""
    lines = text.split("\n")
    units = lines[position.line].encode("utf-16-le")[: 2 * position.character]
    return sum(len(line) + 1 for line in lines[: position.line]) + len(units.decode("utf-16-le"))


@asynccontextmanager
async def editor(
    folder: Path, files: Mapping[str, str] | None = None, options: Mapping[str, Any] | None = None
) -> AsyncIterator[Editor]:
    """An editor with the server of this checkout. `options`: the editor's settings."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    client = make_test_lsp_client()
    client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: None)
    client.feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda params: None)
    await client.start_io(sys.executable, "-m", "memlint", "lsp")
    capabilities = client_capabilities("visual-studio-code")
    if capabilities.workspace is not None:
        capabilities.workspace.configuration = False
    params = types.InitializeParams(
        capabilities, root_uri=folder.as_uri(), initialization_options=dict(options or {}) or None
    )
    await asyncio.wait_for(client.initialize_session(params), TIMEOUT)
    try:
        yield Editor(client, folder)
    finally:
        await asyncio.wait_for(client.shutdown_session(), TIMEOUT)
        await asyncio.wait_for(client.stop(), TIMEOUT)
