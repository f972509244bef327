"""Inputs made to crash, hang or bloat a loader: each ends in a value or a located problem, soon."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from memlint.source import comments, in_dialect, load
from memlint.source.encoding import MAX_BYTES
from tests.pace import pace

# The bar is 1 s on an idle machine; measured below 1 s each. Counting branches makes every line several times slower.
SECONDS = 15.0 if "coverage" in sys.modules else 6.0
MEBIBYTES = 200

CASES = {
    "brackets.yaml": "[" * 100_000,
    "questions.yaml": "? " * 2_000_000,
    "dashes.yaml": "- " * 1_000_000,
    "keys.yaml": "".join(f"key_{i}: {i}\n" for i in range(200_000)),
    "items.yaml": "[" + "a," * 2_600_000,
    "documents.yaml": "---\na\n" * 800_000,
    "duplicates.yaml": "a: 1\n" * 800_000,
    "tags.yaml": "- !x y\n" * 700_000,
    "dates.yaml": "- 2024-13-45\n" * 300_000,
    "comments.yaml": "# x\n" * 1_200_000,
    "integer.yaml": "- 0x" + "f" * 3_000_000,
    "sexagesimal.yaml": "- " + "1:" * 1_000_000 + "1",
    "underscores.yaml": "- " + "1_" * 2_000_000 + ".",
    "quotes.yaml": "'" * 5_000_000,
    "anchors.yaml": "".join(f"a{i}: &a{i} x\n" for i in range(200_000)),
    "merges.yaml": "a: &a {" + ", ".join(f"k{i}: {i}" for i in range(2_000)) + "}\nb:\n" + "  <<: *a\n" * 20_000,
    "brackets.json": "[" * 100_000,
    "items.json": "[" + "1," * 2_500_000,
    "lists.json": "[" + "[]," * 1_700_000,
    "comments.json": "[" + "1,/**/" * 700_000,
    "open-comment.json": "/*" * 2_000_000,
    "escapes.json": '["' + "\\n" * 2_000_000 + '"]',
    "open-string.json": '["' + "\\n" * 2_000_000,
    "keys.json": "{" + ",".join(f'"k{i}":{i}' for i in range(300_000)) + "}",
}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_is_done_with_soon(name: str) -> None:
    data = CASES[name].encode()[:MAX_BYTES]
    before = time.perf_counter()
    documents = load(data, name)
    comments(documents[0])

    assert time.perf_counter() - before < SECONDS * pace()
    for document in documents:
        for problem in document.problems:
            assert 0 <= problem.span.start <= problem.span.end <= len(document.text)
        assert document.value is not None or document.problems or name == "comments.yaml"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["items.yaml", "escapes.json", "keys.json", "lists.json", "duplicates.yaml"])
def test_a_hostile_file_takes_little_memory(name: str) -> None:
    # The high-water mark of the process itself: getrusage's includes what the parent had when it forked.
    code = (
        "import sys; from memlint.source import load; load(sys.stdin.buffer.read(), sys.argv[1]); "
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    data = CASES[name].encode()[:MAX_BYTES]
    done = subprocess.run([sys.executable, "-c", code, name], input=data, capture_output=True, check=True)

    assert int(done.stdout) // 1024 < MEBIBYTES


def test_no_tag_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    def executed(*_: object) -> None:
        raise AssertionError("a tag was executed")

    for name in ("os.system", "os.popen", "subprocess.Popen", "builtins.eval"):
        monkeypatch.setattr(name, executed)
    text = (
        "a: !!python/object/apply:os.system [id]\nb: !!python/object/new:subprocess.Popen [[id]]\nc: !!python/name:x\n"
    )
    (document,) = load(text.encode(), "a.yaml")

    assert {problem.code for problem in document.problems} == {"custom-tag"}


@pytest.mark.parametrize("other", ["yaml11", "yaml12", "omegaconf"])
def test_a_stream_that_ends_earlier_in_another_dialect(other: str) -> None:
    text = "a: 2024-13-45\n---\n<<: 1\n---\n? [x]\n: 1\n---\n010: 1\n8: 2\n---\nb: 1\n"
    for dialect in ("yaml11", "yaml12", "omegaconf"):
        found = load(text.encode(), "a.yaml", dialect=dialect)
        assert found
        for document in found:
            assert in_dialect(document, other).path == "a.yaml"
