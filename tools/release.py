"""Everything of a release but the uploads: builds, and checks what was built. `nox -s release-dry-run`.

python tools/release.py check [--tag v0.1.0]   into dist/: wheel and sdist, checked; exits 1 where something is wrong
python tools/release.py notes 0.1.0            the notes of a version, from CHANGELOG.md
python tools/release.py mirror 0.1.0 FOLDER    the files of a pre-commit mirror of a version
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
EXAMPLE = ROOT / "examples" / "llamafactory" / "llama3_8b_full_zero3.yaml"
IN_WHEEL = ("memlint/cli.py", "memlint/_shipped/rules.jsonl", "memlint/_shipped/rules/memory/MEM001.yaml")
IN_WHEEL += ("memlint/_shipped/schemas/llamafactory.json", "memlint/hardware/gpus.json")
IN_SDIST = ("pyproject.toml", "hatch_build.py", "memlint/cli.py", "rules/memory/MEM001.yaml", "packaging/memlint.1")
IN_SDIST += ("tests/test_house.py", "LICENSE", "CHANGELOG.md")
NOT_IN_WHEEL = re.compile(r"^(tests|benchmarks|docs|tools|examples)/|\.pyc$|\.ipynb$|__pycache__")


def check(tag: str) -> Iterator[str]:
    """What is wrong with the release of the commit that is checked out; builds into dist/."""
    stated = stated_version()
    if tag and tag != f"v{stated}":
        yield f"the tag is {tag}, memlint/__init__.py says {stated}"
    shutil.rmtree(DIST, ignore_errors=True)
    commit = _run(["git", "rev-parse", "HEAD"]).strip()
    sdist, wheel = _built(DIST, commit)
    _run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)])
    yield from contents(wheel, sdist)
    yield from _the_same_twice(wheel, sdist, commit)
    yield from _installed(wheel)
    yield from _installed_by_the_action(wheel, stated)
    yield from places_that_name_the_version(stated)
    print(f"{wheel.name}  {wheel.stat().st_size / 1024:.0f} KiB  sha256 {_hash(wheel)}")
    print(f"{sdist.name}  {sdist.stat().st_size / 1024:.0f} KiB  sha256 {_hash(sdist)}")


def stated_version() -> str:
    text = (ROOT / "memlint" / "__init__.py").read_text(encoding="utf-8")
    return str(re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0])


def _built(folder: Path, commit: str) -> tuple[Path, Path]:
    """(sdist, wheel) of a commit; the wheel is built from the sdist, as packagers do."""
    with tempfile.TemporaryDirectory() as clone:
        _run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), clone])
        _run(["git", "-C", clone, "checkout", "--quiet", "--detach", commit])
        _run([sys.executable, "-m", "build", "--outdir", str(folder), clone], MEMLINT_PROFILES="all")
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def contents(wheel: Path, sdist: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    yield from (f"the wheel lacks {name}" for name in IN_WHEEL if name not in names)
    yield from (f"the wheel holds {name}" for name in sorted(names) if NOT_IN_WHEEL.search(name))
    ends = ("licenses/LICENSE", "share/man/man1/memlint.1", "entry_points.txt")
    yield from (f"the wheel lacks {end}" for end in ends if not any(name.endswith(end) for name in names))
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    yield from (f"the sdist lacks {name}" for name in IN_SDIST if name not in inside)
    yield from (f"the sdist holds {name}" for name in sorted(inside) if name.endswith(".pyc") or ".git/" in name)


def _the_same_twice(wheel: Path, sdist: Path, commit: str) -> Iterator[str]:
    """The same commit built again gives the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        for first, second in zip((sdist, wheel), _built(Path(folder), commit)):
            if _hash(first) != _hash(second):
                yield f"{first.name} is not the same when it is built again"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _installed(wheel: Path) -> Iterator[str]:
    """The wheel in an environment of its own, started from a folder that has nothing to do with this tree."""
    with tempfile.TemporaryDirectory() as folder:
        _run([sys.executable, "-m", "venv", folder])
        bin_ = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        _run([str(bin_ / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)])
        told = {
            ("--version",): f"memlint {wheel.name.split('-')[1]}",
            ("check", str(EXAMPLE)): "1 recognised",
            ("rules",): "MEM001",
            ("completion", "bash"): "complete -o",
            ("help", "fix"): "--unsafe",
        }
        for arguments, expected in told.items():
            done = subprocess.run(
                [str(bin_ / "memlint"), *arguments], cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode not in (0, 1) or expected not in done.stdout:
                yield f"memlint {' '.join(arguments)} of the wheel: {done.returncode}: {done.stdout[:200]}{done.stderr}"


def _installed_by_the_action(wheel: Path, stated: str) -> Iterator[str]:
    """The action's first step: by commit (an archive without git, as the runner gets it), and told what to install.

    That is the wheel that was built, never what an index has under this name and version.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive, tree = Path(folder) / "tree.tar", Path(folder) / "tree"
        _run(["git", "archive", "--output", str(archive), "HEAD"])
        with tarfile.open(archive) as opened:
            opened.extractall(tree, filter="data")
        for number, asked in enumerate(("", wheel.resolve().as_uri())):
            environment = {
                **os.environ,
                "GITHUB_ACTION_PATH": str(tree),
                "MEMLINT_VENV": str(Path(folder) / f"venv{number}"),
                "MEMLINT_SOURCE": asked,
            }
            command = ["bash", str(tree / "scripts" / "action.sh"), "install"]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if done.returncode or f"memlint {stated}" not in done.stdout:
                yield f"action.sh install, source {asked!r}: {done.stdout}{done.stderr}"


def mirror(folder: Path, version: str) -> None:
    """Writes the files of a pre-commit mirror: a small repository whose hooks install the tag."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", folder)
    shutil.copy(ROOT / "LICENSE", folder)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n'
        f'[project]\nname = "memlint-pre-commit"\nversion = "{version}"\ndependencies = ["memlint @ git+https://github.com/OWNER/memlint@v{version}"]\n\n'
        "[tool.setuptools]\npy-modules = []\n",
        encoding="utf-8",
    )


def places_that_name_the_version(stated: str) -> Iterator[str]:
    for name in ("README.md", "docs/integrations/pre-commit.md"):
        for found in re.findall(r"rev: v(\S+)", (ROOT / name).read_text(encoding="utf-8")):
            if found != stated:
                yield f"{name} names v{found}, this is {stated}"
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    if recipe["context"]["version"] != stated:
        yield f"packaging/conda/recipe.yaml is of {recipe['context']['version']}, this is {stated}"


def notes(version: str) -> str:
    """What CHANGELOG.md says of a version; before it has a heading of its own, what it says of the unreleased one."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## \[(.+?)\][^\n]*\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL))
    return str(sections.get(version) or sections["Unreleased"]).strip() + "\n"


def _run(command: list[str], **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "notes", "mirror"))
    parser.add_argument("version", nargs="?", default="")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("mirror"))
    github = os.environ if os.environ.get("GITHUB_REF_TYPE") == "tag" else {}
    parser.add_argument("--tag", default=github.get("GITHUB_REF_NAME", ""), help="the tag that is released, if one is")
    given = parser.parse_args()
    if given.what == "notes":
        sys.stdout.write(notes(given.version))
        return 0
    if given.what == "mirror":
        mirror(given.folder, given.version)
        return 0
    wrong = list(check(given.tag))
    print("\n".join(wrong or ["nothing is wrong with this release"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
