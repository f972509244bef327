"""Framework versions that a repository pins: lock files, requirements, packaging, conda environments.

Only constraints that bound a version from above count (`==4.48.1`, `<5`, `~=4.40`, a tag after
`git+https://...@v4.48.1`); `>=4.40` allows the newest release. A commit after it is some release that is not known.
Kernels that change memory (flash-linear-attention) count without a version.

The folder nearest to the config wins. Within a folder, the order is: the version file of a copy of LLaMA-Factory, lock
files, requirements, requirements of another name (`requirements_qwen.txt`, `requirements/framework.txt`; the newest of
several), scripts that install. The version of a copy of Axolotl is in its setup.py, that of TRL in its pyproject.toml;
the flags of a copy of OpenRLHF tell its version. A folder `deepspeed` or `transformers` is the package itself, which a
program beside it imports before the installed one. Nothing is resolved and nothing executed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from memlint._record import NamedTuple
from memlint.formats.llamafactory.releases import LLAMAFACTORY
from memlint.run import Origin

Version = tuple[int, ...]

KERNELS = "flash-linear-attention"  # matters whatever its version
FRAMEWORKS = ("transformers", "trl", "peft", "accelerate", "torch", "deepspeed", "llamafactory", "axolotl", "verl") + (
    "openrlhf",
    "swift",
    "torchtune",
    "oumi",
    "autotrain-advanced",
    "areal",
    KERNELS,
)
# The package called swift is OpenStack's; conda's pytorch is torch.
_NAMES = {"llama-factory": "llamafactory", "ms-swift": "swift", "swift": "", "pytorch": "torch"}
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
_CONDA = tuple(f"{name}.{kind}" for name in ("environment", "env", "conda", "conda_env") for kind in ("yml", "yaml"))
_REQUIREMENT_FILES = ("requirements.txt", "pyproject.toml", *_CONDA, "setup.cfg", "setup.py")
# Requirement files for training on an image or cluster, in addition to those of the package itself.
_TRAINING_FILES = tuple(
    f"{place}requirements{part}.txt"
    for place in ("", "docker/", "requirements/")
    for part in ("-train", "_train", "-training", "_training", "")
    if place or part
)
# Files of LLaMA-Factory with its version (src/llamafactory since 0.8.0, src/llmtuner before): at the root of a fork, or
# in the folder of a clone.
_VERSION_FILES = ("src/llamafactory/extras/env.py", "src/llmtuner/cli.py", "src/llmtuner/__init__.py")
_VENDORED_FILES = tuple(
    f"{place}{file}" for place in ("", "LLaMA-Factory/", "LlamaFactory/") for file in _VERSION_FILES
)
_OPENRLHF = "openrlhf/cli/train_sft.py"  # of a copy of OpenRLHF
_SWIFT = "swift/version.py"  # of a copy of ms-swift
# Packages that lie in the repository as they are installed, or in the folder of their own repository.
_PACKAGES = ("deepspeed/git_version_info_installed.py",) + tuple(
    f"{place}{name}/__init__.py" for place in ("", "src/") for name in ("transformers", "trl", "peft", "accelerate")
)
# Scripts that make the environment: what they install with pip.
_INSTALLERS = tuple(
    f"{place}{name}"
    for place in ("", "scripts/", "docker/")
    for name in ("setup.sh", "install.sh", "setup_env.sh", "install_env.sh", "env.sh", "environment.sh", "Dockerfile")
)
_ALL = (
    *(
        *_VENDORED_FILES,
        *_PACKAGES,
        *_LOCKS,
        *_REQUIREMENT_FILES,
        *_TRAINING_FILES,
        "requirements/train.txt",
        _OPENRLHF,
        _SWIFT,
    ),
    *_INSTALLERS,
)
REQUIREMENTS = "requirements"  # a folder of such files, and what their names begin with
ANY = frozenset("*")
# Files and folders that may contain pins; `*` stands for any end of a name.
ENTRIES = frozenset((*(name.partition("/")[0] for name in _ALL), f"{REQUIREMENTS}*"))
_FILES = frozenset(posixpath.basename(file) for file in _ALL)
# Requirements of no training, whatever else the name says.
_OF_OTHERS = r"(?:^|[^a-z])(?:dev|docs?|tests?|lint|eval\w*|serv\w*|infer\w*|demo|api|app|web|ui)(?![a-z])"
_DEPENDENCY_SECTIONS = ("project", "tool.poetry.dependencies", "tool.pixi.dependencies", "tool.pixi.pypi-dependencies")
_EXTRAS = "project.optional-dependencies"
MOST_BYTES = 4 << 20
MAX_FOLDERS = 12
# The last release of a major version, for `<5` and `~=4.40`.
_LAST_MINOR: Mapping[str, Mapping[int, Version]] = {
    "transformers": {4: (4, 57)},
    "torch": {1: (1, 13)},
    "trl": {0: (0, 29)},
    "accelerate": {0: (0, 34)},
    "swift": {2: (2, 6)},
}
_NUMBER = r"[0-9]{1,4}(?:\.[0-9]{1,6}){0,3}"
_NAME = r"[A-Za-z][A-Za-z_-]{1,24}"
_AT = r"github\.com/[A-Za-z0-9._-]{1,60}/([A-Za-z-]{1,24})(?:\.git)?@"
_TAG = rf"{_AT}v?([0-9]{{1,4}}\.[0-9][0-9.]*)"
_COMMIT = rf"{_AT}[0-9a-f]{{7,40}}(?![\w.-])"
# Before 0.8.0 the package of LLaMA-Factory was called llmtuner: a requirement of that name means an older release.
_LLMTUNER = r"(?:[#&]egg=|^[ \t]*[\"']?)llmtuner\b"
_LAST_LLMTUNER: Version = (0, 7, 1)
_SETUP_OF_AXOLOTL = r"""(?m)^[ \t]*name=["']axolotl["'],\s*version=["']([0-9][0-9.a-z]{2,20})["']"""
# `"torch-npu": ["torch==2.1.0", "torch-npu==2.1.0.post3"],` in LLaMA-Factory 0.8.3 setup.py: not installed for GPUs.
_OTHER_HARDWARE = r"(?<![a-z])(?:npu|ascend|xpu|hpu|tpu|cpu)(?![a-z])"
_EXTRA_OF_OTHER_HARDWARE = rf"""["'][\w-]{{0,20}}{_OTHER_HARDWARE}[\w-]{{0,20}}["']\s*:\s*\[[^\]]{{0,2000}}\]"""
_PROJECT = r"""(?m)^\[project\]\s*\n(?:[^\[\n][^\n]*\n){0,20}?name\s*=\s*["']([A-Za-z][\w-]{1,24})["']"""
_PACKAGE_VERSION = r"(?:__version__ ?= ?|version=)[\"']([0-9][0-9.a-z]{2,20})[\"']"
_OWN_VERSION = r"(?:VERSION|__version__) = [\"']([0-9][0-9.a-z]{2,20})[\"']"


class Pin(NamedTuple):
    """The newest version that a repository allows, () for a commit, and the place of the constraint."""

    version: Version
    origin: Origin


def pins(folder: str, root: str, pinned_in: Callable[[str], Mapping[str, Pin]]) -> dict[str, Pin]:
    """Pins by framework for configs in `folder` (absolute), from `folder` up to `root`; see `pinned`."""
    found: dict[str, Pin] = {}
    for above in _folders_upward(folder, root):
        found = {**pinned_in(above), **found}
    return found


def may_pin(name: str) -> bool:
    """Whether a file of that name may pin something."""
    return name in _FILES or name.endswith(".txt")


def pinned(
    folder: str, text: Callable[[str], str | None], entries: Collection[str] = ENTRIES, inner: Collection[str] = ()
) -> dict[str, Pin]:
    """The pins of the files in one folder. `text`: reads a file, None if it does not exist. `entries`: those of
    `ENTRIES` that the folder may contain. `inner`: the names in its folder `REQUIREMENTS`."""
    if not entries:
        return {}
    names = [name for name in _ALL if name.partition("/")[0] in entries]
    installers = [name for name in names if name in _INSTALLERS]
    found = _first(folder, text, (name for name in names if name not in installers))
    others = (*entries, *(posixpath.join(REQUIREMENTS, name) for name in inner))
    named = sorted(name for name in others if name not in names and _is_of_training(name))
    stated = [text(posixpath.join(folder, name)) or "" for name in names if name in _REQUIREMENT_FILES] if named else ()
    newest = {key: pin for key, pin in _newest(folder, text, named).items() if not any(map(_names(key), stated))}
    return {**_first(folder, text, installers), **newest, **found}


def _names(framework: str) -> Callable[[str], object]:
    """A function that tells whether a requirements file names the framework, with a version bound or without."""
    return re.compile(rf"(?mi)^[\s\"'-]*{framework}(?![\w-])").search


def _is_of_training(name: str) -> bool:
    """Whether requirements may be those of a training, by their name."""
    return name.startswith(REQUIREMENTS) and name.endswith(".txt") and not re.search(_OF_OTHERS, name.lower())


def _first(folder: str, text: Callable[[str], str | None], names: Iterable[str]) -> dict[str, Pin]:
    """The pins of the files `names`, the first of each framework."""
    found: dict[str, Pin] = {}
    for framework, pin in _pins_in(folder, text, names):
        found.setdefault(framework, pin)
    return found


def _newest(folder: str, text: Callable[[str], str | None], names: Iterable[str]) -> dict[str, Pin]:
    """The pins of files that each describe another environment: the newest of each framework."""
    found: dict[str, Pin] = {}
    for framework, pin in _pins_in(folder, text, names):
        if framework not in found or pin.version > found[framework].version:
            found[framework] = pin
    return found


def _pins_in(folder: str, text: Callable[[str], str | None], names: Iterable[str]) -> Iterator[tuple[str, Pin]]:
    for name in names:
        path = posixpath.join(folder, name)
        content = text(path)
        if content is None:
            continue
        found: Iterable[tuple[str, Version, int]] = _reader(name)(content)
        if name == "pyproject.toml":
            found = chain(_of_copy(content, text(posixpath.join(folder, "VERSION")) or ""), found)
        for framework, version, line in found:
            yield framework, Pin(version, Origin("setting", path, line, 1, (), f"pinned in {name}"))


def _reader(name: str) -> Callable[[str], Iterator[tuple[str, Version, int]]]:
    if name in _VENDORED_FILES:
        return _from_vendored_copy
    if name == "setup.py":
        return _from_setup
    if name in _PACKAGES:
        return partial(_from_package, posixpath.basename(posixpath.dirname(name)))
    if name == _OPENRLHF:
        return _from_openrlhf
    if name == _SWIFT:
        return _from_swift
    if name in _INSTALLERS:
        return _from_installer
    return _from_lock if name in _LOCKS else _from_pyproject if name == "pyproject.toml" else requirements_in


def _from_vendored_copy(content: str) -> Iterator[tuple[str, Version, int]]:
    """`VERSION = "0.9.4"`. A development version (`0.9.4.dev0`) has the keys of the release before it."""
    for number, line in enumerate(content.splitlines(), 1):
        match = re.match(_OWN_VERSION, line)
        version = _numbers(match[1]) if match else ()
        if version:
            older_releases = (release.version for release in LLAMAFACTORY if release.version < version)
            yield "llamafactory", next(older_releases, version) if "dev" in line else version, number
            return


def _from_setup(content: str) -> Iterator[tuple[str, Version, int]]:
    """setup.py: the requirements, and the version of a copy of Axolotl. A development version (`0.6.0.dev0`) gives no
    pin: it is between two releases."""
    match = re.search(_SETUP_OF_AXOLOTL, content)
    if match and "dev" not in match[1]:
        yield "axolotl", _numbers(match[1]), content.count("\n", 0, match.start(1)) + 1
    yield from requirements_in(re.sub(_EXTRA_OF_OTHER_HARDWARE, lambda found: "\n" * found[0].count("\n"), content))


_LAST_WITH_SWITCH: Version = (0, 8, 9)  # of OpenRLHF's releases: 0.8.10 took `--flash_attn` out


def _from_openrlhf(content: str) -> Iterator[tuple[str, Version, int]]:
    """The newest possible release of a copy of OpenRLHF that still has the switch `--flash_attn`."""
    before, found, _ = content.partition('"--flash_attn"')
    if found:
        yield "openrlhf", _LAST_WITH_SWITCH, before.count("\n") + 1


def _from_swift(content: str) -> Iterator[tuple[str, Version, int]]:
    """`__version__ = '3.1.1'` of a copy of ms-swift. What a development version has is sure of the release before."""
    for number, line in enumerate(content.splitlines(), 1):
        match = re.match(_OWN_VERSION, line)
        version = _numbers(match[1]) if match else ()
        if version:
            yield "swift", _release_before("swift", version) if "dev" in line else version, number
            return


def _from_package(framework: str, content: str) -> Iterator[tuple[str, Version, int]]:
    """`__version__ = "4.31.0"`, or `version='0.11.1'` in the file that an installation of DeepSpeed writes. A
    development version is between two releases and gives no pin."""
    for number, line in enumerate(content.splitlines(), 1):
        match = re.match(_PACKAGE_VERSION, line)
        if match:
            if "dev" not in match[1]:
                yield framework, _numbers(match[1]), number
            return


def _from_installer(content: str) -> Iterator[tuple[str, Version, int]]:
    """`pip install transformers==4.34.0 trl==0.14.0`."""
    from memlint.repository.versions.pip_commands import pip_installs  # where a script installs

    for number, word in chain.from_iterable(pip_installs(enumerate(content.splitlines(), 1))):
        yield from ((name, version, number) for name, version, _ in requirements_in(word))


def _folders_upward(folder: str, root: str) -> Iterator[str]:
    for _ in range(MAX_FOLDERS):
        yield folder
        above = posixpath.dirname(folder)
        if folder == root or above == folder:
            return
        folder = above


def _from_lock(content: str) -> Iterator[tuple[str, Version, int]]:
    """`name = "torch"` with the `version = "2.6.0"` that follows it."""
    name = ""
    for number, line in enumerate(content.splitlines(), 1):
        key, _, value = line.partition(" = ")
        if key == "name":
            name = _framework(value.strip().strip('"'))
        elif key == "version" and name:
            version = _numbers(value.strip().strip('"'))
            if version:
                yield name, version, number
            name = ""


def _from_pyproject(content: str) -> Iterator[tuple[str, Version, int]]:
    """pyproject.toml: the project's own dependencies and the extra that training needs, no other (tests, docs)."""
    lines = content.splitlines()
    section = extra = ""
    for index, line in enumerate(lines):
        if line.startswith("["):
            section = line.strip().strip("[]").strip()
        opened = re.match(r"([\w-]{1,40})[ \t]*=[ \t]*\[", line)
        extra = opened[1] if opened else extra
        is_trainings = section == _EXTRAS and "train" in extra.lower()
        if section not in _DEPENDENCY_SECTIONS and not is_trainings:
            lines[index] = ""
    return requirements_in("\n".join(lines))


def _of_copy(content: str, version_file: str) -> Iterator[tuple[str, Version, int]]:
    """The version of a copy of a framework, from its own pyproject.toml (`version = "0.24.0"`) or the file VERSION
    beside it (trl 0.24.0). A development version gives no pin."""
    name = re.search(_PROJECT, content)
    framework = _framework(name[1]) if name else ""
    if not name or not framework:
        return
    stated = re.search(r"""(?m)^version\s*=\s*["']([0-9][^"'\n]{0,20})["']""", content)
    version = stated[1] if stated else version_file.strip()[:20]
    numbers = () if "dev" in version else _numbers(version)
    if numbers:
        yield framework, numbers, content.count("\n", 0, name.start(1)) + 1


def requirements_in(content: str) -> Iterator[tuple[str, Version, int]]:
    """(framework, newest version allowed, line) of each requirement that bounds one."""
    for number, line in enumerate(content.splitlines(), 1):
        if len(line) > 2000 or not any(
            name[:4] in line.lower() for name in (*FRAMEWORKS, "llmtuner", "ms-swift", "ms_swift")
        ):
            continue
        yield from ((name, version, number) for name, version in _git_tags(line))
        if re.search(_LLMTUNER, line):
            yield "llamafactory", _LAST_LLMTUNER, number
        for requirement in _requirements(line):
            name = re.match(_NAME, requirement)
            framework = _framework(name[0]) if name else ""
            bound = _bound(framework, requirement[len(name[0]) :]) if name and framework else ()
            if bound or framework == KERNELS:
                yield framework, bound or (0,), number
        yield from ((name, (), number) for name in _git_commits(line))


def _git_tags(line: str) -> Iterator[tuple[str, Version]]:
    """`git+https://github.com/huggingface/transformers.git@v4.48.1`; a branch or a commit gives no version."""
    for match in re.finditer(_TAG, _stated(line)):
        framework, version = _framework(match[1]), _numbers(match[2])
        if framework and version:
            yield framework, version


def _git_commits(line: str) -> Iterator[str]:
    """The frameworks that `git+https://github.com/huggingface/trl.git@1bca495...` pins at a commit."""
    names = (_framework(match[1]) for match in re.finditer(_COMMIT, _stated(line)))
    return filter(None, names)


def _stated(line: str) -> str:
    """A line without its comment."""
    return line.partition(" #")[0] if line.lstrip()[:1] != "#" else ""


def _requirements(line: str) -> Iterator[str]:
    """The requirements in a line: quoted (TOML, Python), bare, or poetry's `name = "^1.2"`."""
    bare = line.split("#")[0].strip(" \t-,")
    before_marker = bare.partition(";")[0]
    if '"' not in before_marker and "'" not in before_marker:
        bare = before_marker
    key, sign, value = bare.partition("=")
    quote = value.strip()[:1]
    if sign and quote in ("'", '"') and key.strip().replace("-", "").replace("_", "").isalpha():
        constraint = value.strip().strip("\"'")
        yield key.strip() + ("==" + constraint if constraint[:1].isdigit() else constraint)
    if '"' in bare or "'" in bare:
        yield from (part.strip() for part in bare.replace("'", '"').split('"')[1::2])
    else:
        yield bare


def _framework(name: str) -> str:
    normalized = name.lower().replace("_", "-").strip("-")
    normalized = _NAMES.get(normalized, normalized)
    return normalized if normalized in FRAMEWORKS else ""


def _bound(framework: str, specifier: str) -> Version:
    """The newest version that a specifier (PEP 440, conda, poetry) allows; () if it has no upper bound."""
    text = specifier.strip()
    if text[:1] == "[":
        text = text.partition("]")[2]
    text = text.partition(";")[0]
    found = [bound for part in text.split(",") if (bound := _clause_bound(framework, part.strip()))]
    return min(found) if found else ()


def _clause_bound(framework: str, part: str) -> Version:
    sign = part[: len(part) - len(part.lstrip("=<>!~^ "))].strip()
    number = _numbers(part[len(sign) :].strip())
    if not number or sign not in ("==", "===", "=", "<=", "<", "~=", "^"):
        return ()
    if sign == "<":
        return _release_before(framework, number)
    if sign == "^" or (sign == "~=" and len(number) == 2) or part.endswith(f"={number[0]}.*"):
        return _LAST_MINOR.get(framework, {}).get(number[0], ())
    return number[:2] if sign == "~=" else number


def _release_before(framework: str, version: Version) -> Version:
    while len(version) > 1 and version[-1] == 0:
        version = version[:-1]
    if len(version) == 1:
        return _LAST_MINOR.get(framework, {}).get(version[0] - 1, ())
    return (*version[:-1], version[-1] - 1)


def _numbers(text: str) -> Version:
    """`2.6.0+cu124` as (2, 6, 0); () for text that is not a version."""
    match = re.match(_NUMBER, text)
    return tuple(map(int, match[0].split("."))) if match else ()
