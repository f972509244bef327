"""The language server under an editor's messages: from an edit to its diagnostics, and the server's memory.

    python benchmarks/speed/editor.py [--edits 200] [--open 1 50] [--memory-edits 10000] [--large]

A real client starts `memlint lsp`, opens one file of each kind that memlint reads, and types: each edit moves every
finding by some lines, so that each is answered with new diagnostics. The time runs from the message with the edit to
the message with the diagnostics of that very version. `--open N`: with N open files, the others configs with a card.
`--large`: what a file of 5 MB costs, and 200 open files. Linux, for the memory.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lsprotocol import types

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.lsp.editor import Editor, editor
from tests.lsp.test_handlers import FULL, KINDS, ZERO2, ZERO2_JSON

TYPED = {
    **KINDS,
    "deepspeed": ("zero2.json", {"zero2.json": ZERO2_JSON, "train.yaml": ZERO2}),
    "yaml with deepspeed": ("train.yaml", {"zero2.json": ZERO2_JSON, "train.yaml": ZERO2}),
}
CARD = {"gpu": "RTX 4090", "gpus": 1}


class Typist:
    """Types into one file and waits for what is said of it."""

    def __init__(self, window: Editor, name: str) -> None:
        self.window, self.name = window, name
        self.text = window.texts[name]
        self.number = 0
        self.seen = asyncio.Event()
        self._uri = window.uri(name)

        # In place of the client's own handler, which keeps all that was ever said.
        window.client.protocol.fm.features[types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = self._published

    def _published(self, params: types.PublishDiagnosticsParams) -> None:
        if params.uri == self._uri and params.version == self.number:
            self.seen.set()

    def type(self) -> None:
        self.number += 1
        line = "\n" if self.name.endswith((".json", ".ipynb")) else f"# {self.number}\n"
        self.seen.clear()
        self.window.type(self.name, line * (self.number % 5 + 1) + self.text)

    async def seconds(self) -> float:
        """From an edit to its diagnostics."""
        start = time.perf_counter()
        self.type()
        await asyncio.wait_for(self.seen.wait(), 60)
        return time.perf_counter() - start


def resident(window: Editor) -> float:
    """MiB of the server."""
    status = Path(f"/proc/{window.client._server.pid}/status").read_text()  # type: ignore[attr-defined]
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def latency(kind: str, edits: int, files: int) -> list[float]:
    """The seconds of each edit of a file of this kind, with so many files open."""
    name, beside = TYPED[kind]
    others = {f"other{number:03}.yaml": FULL for number in range(files - 1)}
    with tempfile.TemporaryDirectory() as folder:
        async with editor(Path(folder), {**beside, **others}, CARD) as window:
            for one in [*others, *(one for one in beside if "deepspeed" in kind and one != name), name]:
                window.open(one)
            await window.lenses(name)
            typist = Typist(window, name)
            await typist.seconds()
            return [await typist.seconds() for _ in range(edits)]


async def memory(edits: int) -> list[tuple[int, float]]:
    """(edits so far, MiB) while a config with a DeepSpeed file is edited."""
    name, beside = TYPED["yaml with deepspeed"]
    with tempfile.TemporaryDirectory() as folder:
        async with editor(Path(folder), beside, CARD) as window:
            for one in beside:
                window.open(one)
            await window.lenses(name)
            typist = Typist(window, name)
            found = [(0, resident(window))]
            for number in range(1, edits + 1):
                await typist.seconds()
                if number in (100, 1000, edits):
                    found.append((number, resident(window)))
            return found


async def large() -> None:
    """A file of 5 MB, and 200 open files."""
    with tempfile.TemporaryDirectory() as folder:
        note = "# a line of a long file that says nothing about memory\n"
        text = FULL + note * ((5_000_000 - len(FULL)) // len(note))
        files = {f"train{number:03}.yaml": FULL for number in range(200)}
        async with editor(Path(folder), {"large.yaml": text, **files}, CARD) as window:
            start = time.perf_counter()
            for name in files:
                window.open(name)
            for name in files:
                await window.lenses(name)
            print(f"200 files opened and checked: {time.perf_counter() - start:.1f} s, {resident(window):.0f} MiB")
            window.open("large.yaml")
            await window.lenses("large.yaml")
            typist = Typist(window, "large.yaml")
            times = [await typist.seconds() for _ in range(5)]
            print(f"an edit of 5 MB: {statistics.median(times):.2f} s, {resident(window):.0f} MiB")
            small = Typist(window, "train000.yaml")
            print(f"an edit of another file beside it: {1000 * (await small.seconds()):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--open", type=int, nargs="*", default=[1, 50])
    parser.add_argument("--memory-edits", type=int, default=10_000)
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    print(f"{'ms from an edit to its diagnostics':36}{'files':>6}{'p50':>8}{'p95':>8}{'most':>8}")
    for files in given.open:
        for kind in TYPED:
            times = sorted(1000 * one for one in asyncio.run(latency(kind, given.edits, files)))
            p95 = times[int(0.95 * (len(times) - 1))]
            print(f"{kind:36}{files:6}{statistics.median(times):8.1f}{p95:8.1f}{times[-1]:8.1f}", flush=True)
    for number, size in asyncio.run(memory(given.memory_edits)) if given.memory_edits else ():
        print(f"after {number:6} edits: {size:.0f} MiB", flush=True)
    if given.large:
        asyncio.run(large())


if __name__ == "__main__":
    main()
