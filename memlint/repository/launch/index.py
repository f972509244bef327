"""What one repository says of launching its configs; commands are taken apart when a config that they name asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from memlint.formats.base import Launch
from memlint.repository.launch.pages import TrackedNames, by_distance, may_name, shows_launcher, texts
from memlint.source.document import Document


class Launching:
    """Names count from `root`; `tracked` are those of the repository's files, `read` and `load` take absolute paths."""

    def __init__(
        self, root: str, tracked: Iterable[str], read: Callable[[str], bytes], load: Callable[[str], Document]
    ) -> None:
        self._names = TrackedNames(root, frozenset(tracked))
        self._texts = dict(texts(self._names, read))
        self._shown: dict[str, tuple[tuple[str, Launch], ...]] = {}
        self._read = read
        self._load = load
        self._files: tuple[str, ...] | None = None

    def launches(self, config: str, text: str) -> tuple[Launch, ...]:
        """The commands that launch `config`: those in its own `text`, then the nearest first."""
        pages = (name for name, data in self._texts.items() if may_name(data, config))
        found = (launch for page in pages for one, launch in self._told(page) if one == config)
        return (*self._own(config, text), *by_distance(found, config, lambda launch: launch.path))

    def _own(self, config: str, text: str) -> tuple[Launch, ...]:
        if not shows_launcher(text):
            return ()
        from memlint.repository.launch.parse import own  # where a launcher is named

        return own(config, text, self._names)

    def files(self, config: str) -> Sequence[str]:
        """The launch files of accelerate, the likeliest for `config` first."""
        import memlint.repository.launch.files as launch_files  # where nothing launches a config of several GPUs

        if self._files is None:
            self._files = launch_files.launch_files(self._names, self._read, self._load)
        used = Counter(name for page in self._texts for _, launch in self._told(page) for name in launch.files)
        return launch_files.likeliest(self._files, config, used)

    def _told(self, page: str) -> tuple[tuple[str, Launch], ...]:
        if page not in self._shown:
            from memlint.repository.launch.parse import shown  # where a page names a config

            self._shown[page] = shown(page, self._texts[page].decode("utf-8", "replace"), self._names)
        return self._shown[page]
