"""The server of one editor: its open documents, their findings, and the messages to the editor.

All of it runs on the event loop; reading and estimating files runs on the thread of schedule.py.
"""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer

import memlint.lsp.diagnostics as shown
import memlint.lsp.lens as lens
from memlint import __version__
from memlint.errors import UsageError
from memlint.lsp.buffers import Buffers, path_of, uri_of
from memlint.lsp.completion import KeySource
from memlint.lsp.configuration import Configuration, configuration
from memlint.lsp.keys import documents_at
from memlint.lsp.positions import Positions
from memlint.lsp.schedule import ASKED, DEPENDENT, EDITED, OTHERS, Schedule, Superseded
from memlint.lsp.session import CheckedFile, EditorSession, dependents

STATUS = "memlint/status"  # sent to clients that ask for it: the verdict for a status bar
MOST_DELAY = 0.5  # seconds: a check waits for further edits half as long as the last check took, at most this long
MOST_FUTURES = 100

T = TypeVar("T")


class MemlintServer(LanguageServer):
    """One editor's session."""

    def __init__(self) -> None:
        super().__init__(
            "memlint", __version__, types.TextDocumentSyncKind.Full, max_workers=2
        )  # whole texts: no edit is ever applied to another text than the editor's
        self.buffers = Buffers()
        self.schedule = Schedule()
        self.session = EditorSession(self.buffers.unsaved, lambda: self.schedule.superseded)
        self.known: dict[str, CheckedFile] = {}  # the result of the last check of each open file
        self.settings: dict[str, Any] = {}
        self.card = ""  # selected in the editor; overrides every setting
        self.key_sources: dict[str, KeySource] = {}  # of open files, from their last text that could be parsed
        self.sends_status = False
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._crashes: set[str] = set()
        self._published: dict[str, list[types.Diagnostic]] = {}

    # --- settings

    def configure(self) -> None:
        """Applies the settings and checks every open file again."""
        settings = {**self.settings, **({"gpu": self.card} if self.card else {})}
        made: Configuration = configuration(settings, os.getcwd())
        for mistake in made.mistakes:
            self.log(mistake, types.MessageType.Warning)
        self.session.configure(made.request)
        self.check_all()

    # --- checks

    def check_soon(self, path: str, urgency: int = EDITED) -> None:
        """Checks an open file. An older check of it is dropped if it waits; if it runs, its result is not shown."""
        running = self._checks.get(path)
        if running is not None:
            running.cancel()
        self.schedule.superseded = True
        task = asyncio.ensure_future(self._check(path, urgency))
        self._checks[path] = task
        task.add_done_callback(lambda done: self._checks.pop(path) if self._checks.get(path) is done else None)

    def check_all(self) -> None:
        for number, path in enumerate(self.buffers.paths()):
            self.check_soon(path, EDITED if number == 0 else OTHERS)

    def file_changed(self, path: str) -> None:
        """Checks again the files that depend on the file at `path`, because its content has changed."""
        self.session.changed(path)
        for other in list(dependents(path, self.known.values())):
            if other in self.buffers:
                self.check_soon(other, DEPENDENT)

    async def _check(self, path: str, urgency: int) -> None:
        before = self.known.get(path)
        if urgency != ASKED and before is not None:
            await asyncio.sleep(min(MOST_DELAY, before.seconds / 2))
        try:
            found = await self.schedule.run(urgency, functools.partial(self.session.check, path))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.log_crash(f"check of {path}", error)
            return
        if path not in self.buffers:
            return
        self.known[path] = found
        self._show(found, before)

    def _show(self, found: CheckedFile, before: CheckedFile | None) -> None:
        paths = shown.pointed_at(found.report) | (shown.pointed_at(before.report) if before else set())
        for path in paths:
            self.publish(path)
        if self.sends_status:
            self.protocol.notify(STATUS, status(found))
        lenses = self.client_capabilities.workspace and self.client_capabilities.workspace.code_lens
        if lenses and lenses.refresh_support and (before is None or before.report.runs != found.report.runs):
            self.workspace_code_lens_refresh(None)

    def publish(self, path: str) -> None:
        """Sends the diagnostics of a file if they differ from those that the editor shows."""
        known = tuple(self.known.values())
        found = list(shown.diagnostics(path, known, self.checked_positions))
        if found == self._published.get(path, []):
            return
        self._published[path] = found
        if not found:
            del self._published[path]
        buffer = self.buffers.get(path)
        uri, version = (buffer.uri, buffer.version) if buffer is not None else (uri_of(path), None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def close(self, path: str) -> None:
        before = self.known.pop(path, None)
        self.key_sources.pop(path, None)
        check = self._checks.pop(path, None)
        if check is not None:
            check.cancel()
        for other in shown.pointed_at(before.report) if before is not None else ():
            self.publish(other)
        self.file_changed(path)

    async def checked(self, uri: str) -> str | None:
        """Waits until the newest text of an open document is checked, and returns its path; None for a document that
        memlint does not read."""
        path = path_of(uri)
        if path is None or path not in self.buffers:
            return None
        while (check := self._checks.get(path)) is not None:
            await asyncio.wait([check])
        return path

    async def asked(self, work: Callable[[], T]) -> T | None:
        """The result of work that somebody waits for; None if an edit superseded it."""
        try:
            return await self.schedule.run(ASKED, work)
        except (Superseded, UsageError):
            return None

    def drop_answered(self) -> None:
        """pygls 2.1.1 keeps the future of each notification (protocol/json_rpc.py:219): 2.6 kB an edit."""
        futures = getattr(self.protocol, "_request_futures", {})
        if len(futures) > MOST_FUTURES:
            for number in [number for number, future in futures.items() if future.done()]:
                del futures[number]

    # --- positions

    def positions(self, path: str) -> Positions:
        """The positions of the text in the editor."""
        return Positions(self.buffers[path].text if path in self.buffers else "", self.encoding)

    def checked_positions(self, path: str) -> Positions:
        """The positions of the text that was checked."""
        for one in self.known.values():
            text = one.report.texts.get(path)
            if text is not None:
                return Positions(text, self.encoding)
        for one in self.known.values():
            for _, document in documents_at(path, one.analyses):
                return Positions(document.text, self.encoding)
        return self.positions(path)

    @property
    def encoding(self) -> str:
        return str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding))

    # --- messages to the editor

    def log(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.window_log_message(types.LogMessageParams(kind, f"memlint: {message}"))

    def log_crash(self, what: str, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if trace not in self._crashes:  # each only once: every edit may repeat it
            self._crashes.add(trace)
            self.log(f"{what} failed; this is a bug in memlint. {trace}", types.MessageType.Error)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Logs an error of pygls, which would by default show it in a pop-up."""
        self.log_crash("a message", error)

    async def show_text(self, name: str, text: str) -> str:
        """Shows a text as a file if the editor can, else as a message. Returns the text, for the extension."""
        window = self.client_capabilities.window
        if window is not None and window.show_document is not None and window.show_document.support:
            path = os.path.join(_folder(), name)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
            await self.window_show_document_async(types.ShowDocumentParams(uri_of(path), take_focus=True))
        else:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
        return text


@functools.cache
def _folder() -> str:
    return tempfile.mkdtemp(prefix="memlint-")


def status(found: CheckedFile) -> dict[str, Any]:
    """The content of the status bar for a file."""
    runs = [{"text": lens.title(run), "verdict": run.estimate.verdict} for run in found.report.runs]
    return {"uri": uri_of(found.path), "runs": runs, "findings": len(found.report.findings)}
