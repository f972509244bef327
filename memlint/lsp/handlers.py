"""The handlers of the editor's messages. `make_server` registers them with a server.

An exception in a handler becomes a line in the editor's log, and the answer to the request is empty.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Coroutine
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.uris import to_fs_path

import memlint.lsp.actions as code_actions
import memlint.lsp.diagnostics as shown
import memlint.lsp.lens as lens
from memlint.hardware.catalog import every as every_card
from memlint.lint.many.merge_reports import merge_reports
from memlint.lsp.buffers import path_of
from memlint.lsp.completion import KeySource, completions, cursor
from memlint.lsp.explained import explanation
from memlint.lsp.hover import hover, key_at
from memlint.lsp.keys import documents_at, format_of
from memlint.lsp.server import MemlintServer
from memlint.repository.files.discovery import SUFFIXES, may_be_config
from memlint.settings.model import NAMES as SETTINGS

SECTION = "memlint"
SELECT_CARD, CARDS = "memlint.selectCard", "memlint.cards"
_WATCHED = [*(f"**/*{suffix}" for suffix in SUFFIXES), *(f"**/{name}" for name in SETTINGS), "**/requirements*.txt"]

Handler = Callable[..., Coroutine[Any, Any, Any]]


def logged(handler: Handler) -> Handler:
    """A handler whose exceptions are lines in the editor's log."""

    @functools.wraps(handler)
    async def safe(server: MemlintServer, *arguments: Any) -> Any:
        try:
            return await handler(server, *arguments)
        except Exception as error:
            server.log_crash(handler.__name__, error)
            return None

    return safe


def make_server() -> MemlintServer:
    """A server with every handler."""
    server = MemlintServer()
    for method, (handler, options) in _FEATURES.items():
        server.feature(method, options)(logged(handler))
    for name, command in _COMMANDS.items():
        server.command(name)(logged(command))
    return server


# --- the session


async def initialize(server: MemlintServer, params: types.InitializeParams) -> None:
    root = to_fs_path(params.root_uri or "") if params.root_uri else params.root_path
    folders = params.workspace_folders or []
    root = root or (to_fs_path(folders[0].uri) if folders else None)
    if root and os.path.isdir(root):
        os.chdir(root)  # paths in messages are relative to it, as on the command line
    options = params.initialization_options if isinstance(params.initialization_options, dict) else {}
    server.sends_status = bool(options.get("status"))
    server.settings = {name: value for name, value in options.items() if name != "status"}


async def initialized(server: MemlintServer, params: types.InitializedParams) -> None:
    server.configure()
    workspace = server.client_capabilities.workspace
    if workspace is None:
        return
    if workspace.did_change_watched_files and workspace.did_change_watched_files.dynamic_registration:
        watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        registration = types.Registration("memlint-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        try:
            await server.client_register_capability_async(types.RegistrationParams([registration]))
        except JsonRpcException as error:
            server.log(f"the editor does not tell of changed files: {error}")
    if workspace.configuration:
        await read_settings(server)


async def read_settings(server: MemlintServer) -> None:
    """Asks the editor for its settings, and applies them if they have changed."""
    wanted = types.ConfigurationParams([types.ConfigurationItem(section=SECTION)])
    answers = await server.workspace_configuration_async(wanted)
    found = answers[0] if answers else None
    if isinstance(found, dict) and found != server.settings:
        server.settings = found
        server.configure()


async def settings_changed(server: MemlintServer, params: types.DidChangeConfigurationParams) -> None:
    given = params.settings.get(SECTION, params.settings) if isinstance(params.settings, dict) else None
    workspace = server.client_capabilities.workspace
    if given:
        server.settings = given
        server.configure()
    elif workspace is not None and workspace.configuration:
        await read_settings(server)


# --- documents


async def opened(server: MemlintServer, params: types.DidOpenTextDocumentParams) -> None:
    document = params.text_document
    await _put(server, document.uri, document.version, document.text)


async def changed(server: MemlintServer, params: types.DidChangeTextDocumentParams) -> None:
    document = params.text_document
    server.drop_answered()
    await _put(server, document.uri, document.version, params.content_changes[-1].text)


async def _put(server: MemlintServer, uri: str, version: int, text: str) -> None:
    path = path_of(uri)
    if path is None:
        return
    is_new = path not in server.buffers
    buffer = server.buffers.put(uri, version, text)
    server.file_changed(path)
    if is_new and buffer is not None and buffer.saved is None:
        server.check_all()  # a new file that is not on disk: other files may refer to it
    if buffer is not None and may_be_config(os.path.basename(path)):
        server.check_soon(path)


async def closed(server: MemlintServer, params: types.DidCloseTextDocumentParams) -> None:
    path = server.buffers.close(params.text_document.uri)
    if path is not None:
        server.close(path)


async def saved(server: MemlintServer, params: types.DidSaveTextDocumentParams) -> None:
    path = path_of(params.text_document.uri)
    if path is not None:
        on_disk_changed(server, [path])


async def files_changed(server: MemlintServer, params: types.DidChangeWatchedFilesParams) -> None:
    paths = [path for event in params.changes if (path := path_of(event.uri)) is not None]
    came_or_went = any(event.type != types.FileChangeType.Changed for event in params.changes)
    on_disk_changed(server, paths, came_or_went)


def on_disk_changed(server: MemlintServer, paths: list[str], came_or_went: bool = False) -> None:
    """Reacts to changed files. Settings, and files that were created or deleted (`came_or_went`), may affect every open
    file."""
    for path in paths:
        if path in server.buffers:
            server.buffers.reread(path)
    if came_or_went or any(os.path.basename(path) in SETTINGS for path in paths):
        server.configure()
        return
    for path in paths:
        server.file_changed(path)
        if path in server.buffers and may_be_config(os.path.basename(path)):
            server.check_soon(path)


# --- answers


async def code_lens(server: MemlintServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    path = await server.checked(params.text_document.uri)
    if path is None:
        return []
    return list(lens.lenses(path, tuple(server.known.values()), server.positions(path)))


async def hovered(server: MemlintServer, params: types.HoverParams) -> types.Hover | None:
    path = await server.checked(params.text_document.uri)
    if path is None:
        return None
    positions = server.checked_positions(path)
    key = key_at(path, positions.offset(params.position), tuple(server.known.values()))
    if key is None:
        return None
    text = await server.asked(functools.partial(hover, key, server.session.reanalysis))
    content = types.MarkupContent(types.MarkupKind.Markdown, text) if text else None
    return types.Hover(content, positions.of(key.span)) if content else None


async def offered(server: MemlintServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    path = await server.checked(params.text_document.uri)
    wanted = params.context.only
    if path is None or (wanted and not any("quickfix".startswith(str(getattr(k, "value", k))) for k in wanted)):
        return []
    first, last = params.range.start.line + 1, params.range.end.line + 1
    owners = [one.path for one in server.known.values() if path in shown.pointed_at(one.report)]
    reports = [await server.asked(functools.partial(server.session.with_fixes, owner)) for owner in owners]
    merged = merge_reports(report for report in reports if report is not None)
    own = next((report.findings for report in merged if report.path == path), ())
    here = [item for item in own if first <= item.location.line <= last]
    versions = {name: server.buffers[name].version for name in server.buffers.paths()}
    return list(code_actions.actions(path, here, server.checked_positions, versions))


async def completed(server: MemlintServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    path = path_of(params.text_document.uri)
    if path is None or path not in server.buffers:
        return []
    positions = server.positions(path)
    at = cursor(path, positions.text, positions.offset(params.position))
    source = _key_source(server, path)
    if at is None or source is None:
        return []
    return list(await server.asked(lambda: list(completions(at, source))) or ())


def _key_source(server: MemlintServer, path: str) -> KeySource | None:
    """The framework whose keys a file has, by its last text that could be parsed."""
    for one in server.known.values():
        for analysis, document in documents_at(path, one.analyses):
            format_ = format_of(analysis, document)
            if format_ is not None:
                server.key_sources[path] = KeySource(format_, analysis.runs[0] if analysis.runs else None)
    return server.key_sources.get(path)


# --- commands


async def show_table(server: MemlintServer, path: str, index: int = 0) -> str | None:
    runs = server.known[path].report.runs if path in server.known else ()
    return await server.show_text("memory.txt", lens.table(runs[index])) if index < len(runs) else None


async def explain(server: MemlintServer, rule: str, path: str = "", line: int = 0) -> str | None:
    text = await server.asked(lambda: explanation(server.session, rule, path, line))
    return await server.show_text(f"{rule}.txt", text) if text else None


async def select_card(server: MemlintServer, name: str = "") -> str:
    """Compares every run with this card from now on; "" for the card that files and settings name."""
    server.card = name
    server.configure()
    return name


async def cards(server: MemlintServer) -> list[str]:
    return [card.name for card in every_card()]


_FEATURES: dict[str, tuple[Handler, Any]] = {
    types.INITIALIZE: (initialize, None),
    types.INITIALIZED: (initialized, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (settings_changed, None),
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: (files_changed, None),
    types.TEXT_DOCUMENT_DID_OPEN: (opened, None),
    types.TEXT_DOCUMENT_DID_CHANGE: (changed, None),
    types.TEXT_DOCUMENT_DID_CLOSE: (closed, None),
    types.TEXT_DOCUMENT_DID_SAVE: (saved, None),
    types.TEXT_DOCUMENT_CODE_LENS: (code_lens, types.CodeLensOptions()),
    types.TEXT_DOCUMENT_HOVER: (hovered, None),
    types.TEXT_DOCUMENT_CODE_ACTION: (offered, types.CodeActionOptions([types.CodeActionKind.QuickFix])),
    types.TEXT_DOCUMENT_COMPLETION: (completed, types.CompletionOptions(trigger_characters=[" ", '"', "-", ":"])),
}
_COMMANDS: dict[str, Handler] = {
    lens.SHOW_TABLE: show_table,
    code_actions.EXPLAIN: explain,
    SELECT_CARD: select_card,
    CARDS: cards,
}
