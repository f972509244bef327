"""What stands for a file while an editor holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.lsp.buffers import Buffers, path_of, uri_of


@pytest.mark.parametrize(
    "data",
    [b"a: 1\n", b"\xef\xbb\xbfa: 1\n", "a: é\n".encode("utf-16"), b"a: \xff\n"],
    ids=["utf-8", "bom", "utf-16", "broken"],
)
def test_a_text_that_is_its_file_s_is_read_from_the_file(tmp_path: Path, data: bytes) -> None:
    """So that the file's own bytes are judged, as on the command line."""
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    buffers = Buffers()
    text = data.decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8-sig", "replace")

    buffers.put(path.as_uri(), 1, text)

    assert buffers.unsaved == {}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_changed_text_keeps_the_encoding_of_its_file(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes("a: é\n".encode(encoding))
    buffers = Buffers()

    buffers.put(path.as_uri(), 1, "a: è\n")

    assert buffers.unsaved[str(path)] == "a: è\n".encode(encoding)


def test_a_new_file_is_utf_8(tmp_path: Path) -> None:
    buffers = Buffers()

    buffers.put((tmp_path / "new.yaml").as_uri(), 1, "a: \ud800\n")

    assert list(buffers.unsaved) == [str(tmp_path / "new.yaml")]


def test_the_file_counts_again_when_it_holds_the_text_or_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    buffers = Buffers()
    buffers.put(path.as_uri(), 1, "a: 2\n")
    assert buffers.unsaved

    path.write_text("a: 2\n")
    buffers.reread(path_of(path.as_uri()) or "")
    assert not buffers.unsaved

    buffers.put(path.as_uri(), 2, "a: 3\n")
    buffers.close(path.as_uri())
    assert not buffers.unsaved
    assert buffers.close(path.as_uri()) is None


def test_what_is_no_file_is_passed_over() -> None:
    buffers = Buffers()

    assert buffers.put("untitled:Untitled-1", 1, "a: 1") is None
    assert path_of("vscode-notebook-cell:/a.ipynb#W0") is None


def test_names_with_spaces_and_letters_of_other_scripts(tmp_path: Path) -> None:
    path = tmp_path / "mit Leerzeichen é 模型 #1.yaml"

    assert path_of(path.as_uri()) == str(path)
    assert path_of(uri_of(str(path))) == str(path)


def test_a_link_stands_for_the_file_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("a: 1\n")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    buffers = Buffers()

    buffers.put((tmp_path / "link.yaml").as_uri(), 1, "a: 2\n")

    assert list(buffers.unsaved) == [str(tmp_path / "real.yaml")]
