"""Writes the files of a question; never overwrites a file that memlint has not written."""

from __future__ import annotations

import os

from memlint.atomic_files import NotWritten, write_whole
from memlint.errors import UsageError
from memlint.question.files import MARK
from memlint.question.model import QuestionFiles


def write_files(files: QuestionFiles, target: str) -> tuple[str, ...]:
    """Writes the files to the folder `target`; if it ends in .yaml or .yml, it is the path of the config instead.

    Returns the paths. Raises UsageError if a file cannot be written, or exists and does not begin with MARK.
    """
    named = target.endswith((".yaml", ".yml"))
    folder = os.path.dirname(target) if named else target
    main = os.path.basename(target) if named else files.main
    texts = {os.path.join(folder, main if name == files.main else name): text for name, text in files.contents.items()}
    is_ours = _begins_with_mark(os.path.join(folder, main))
    for path, text in texts.items():
        if os.path.exists(path) and not is_ours and _content(path) != text:
            raise UsageError(f"--write-config {target}: {path} is there already: name another folder")
    for path, text in texts.items():
        _write(path, text)
    return tuple(texts)


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        write_whole(path, (text.encode(),))
    except (OSError, NotWritten) as error:
        raise UsageError(f"--write-config: {error}") from None


def _begins_with_mark(path: str) -> bool:
    content = _content(path)
    return content is not None and content.startswith(MARK)


def _content(path: str) -> str | None:
    """The text of a file; None if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None
