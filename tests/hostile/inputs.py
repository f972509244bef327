"""38 inputs that crashed, hung or bloated linters of YAML, and mixes of them; each built anew, none large on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

GOOD = (
    "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: lora\nlora_rank: 16\n"
    "cutoff_len: 2048\nper_device_train_batch_size: 2\nbf16: true\noutput_dir: saves/x\n"
)
_LAUGHS = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 10))
_MERGES = "".join(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}\n" for i in range(1, 10))

# What is wrong with a text: each is a fragment that can stand beside a training config.
FRAGMENTS: dict[str, bytes] = {
    "empty": b"",
    "nul": b"note: a\x00b\n",
    "latin-1": "note: caf\xe9\n".encode("latin-1"),
    "utf-16": "note: hello\n".encode("utf-16"),
    "bom": b"\xef\xbb\xbfnote: x\n",
    "crlf": b"note: x\r\nother: y\r\n",
    "tabs": b"note:\n\tinner: 1\n",
    "billion-laughs": b"l0: &l0 [lol]\n" + _LAUGHS.encode(),
    "alias-cycle": b"cycle: &c [*c]\n",
    "merge-bomb": b"m0: &m0 {a: 1}\n" + _MERGES.encode(),
    "nesting-500": b"deep: " + b"[" * 500 + b"]" * 500 + b"\n",
    "nesting-1000": b"deep: " + b"{a: " * 1000 + b"1" + b"}" * 1000 + b"\n",
    "nesting-100000": b"deep: " + b"[" * 100_000 + b"\n",
    "duplicate-keys": b"cutoff_len: 1\ncutoff_len: 2\n",
    "documents": b"---\na: 1\n---\nb: 2\n",
    "top-list": b"- 1\n- 2\n",
    "top-scalar": b"just words\n",
    "odd-keys": b"1: a\n? [x, y]\n: b\nnull: c\ntrue: d\n",
    "python-tag": b"x: !!python/object/apply:os.system ['touch executed']\n",
    "custom-tags": b"x: !vault abc\ny: !Ref {a: b}\n",
    "long-line": b"note: " + b"x" * 1_000_000 + b"\n",
    "many-keys": b"".join(b"key_%d: %d\n" % (i, i) for i in range(200_000)),
    "long-integer": b"cutoff_len: " + b"9" * 10_000 + b"\n",
    "not-a-number": b"learning_rate: .nan\nlora_alpha: 1e400\ncutoff_len: .inf\n",
    "impossible-date": b"cutoff_len: 2026-13-45\n",
    "jinja": b"model_name_or_path: {{ model }}\n{% if x %}\ncutoff_len: 1\n{% endif %}\n",
    "surrogate": b'note: "\\ud800"\n',
    "bidi": "note: \u202etxt.exe\u2066\n".encode(),
    "yaml-9.9": b"%YAML 9.9\n---\nnote: x\n",
    "control": b"note: a\x07\x1b[31mred\n",
    "dangling-alias": b"note: *nowhere\n",
    "quote": b'note: "open\n',
    "workflow-command": b"::error file=x::boo: 1\ncutoff_len: '::error::x%0A'\n",
    "markup": b"note: <script>alert(1)</script>\noutput_dir: '=cmd|calc!A0'\n",
}
# What is wrong with a place.
PLACES = ("folder", "dangling-link", "looping-link", "pipe")
HEAVY = ("many-keys", "nesting-100000", "long-line")  # once each; mixes take the rest


def place(kind: str, folder: Path) -> Path:
    """A path below `folder` that is no regular file."""
    path = folder / f"{kind}.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "dangling-link":
        path.symlink_to(folder / "nothing.yaml")
    elif kind == "looping-link":
        path.symlink_to(path)
    else:
        os.mkfifo(path)
    return path


def mixes() -> Iterator[tuple[str, bytes]]:
    """Every two fragments, with a training config before them, in one file."""
    light = [name for name in FRAGMENTS if name not in HEAVY]
    for one, two in combinations(light, 2):
        yield f"{one}+{two}", GOOD.encode() + FRAGMENTS[one] + FRAGMENTS[two]
