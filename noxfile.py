"""One verb for each chore: `pip install nox`, then `nox -l` lists them and `nox -s VERB` runs one.

Everything runs in the environment that nox runs in: `pip install -e '.[test,docs]'` first (CONTRIBUTING.md).
"""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "tests"]


@nox.session
def tests(session: nox.Session) -> None:
    """The test suite; arguments go to pytest: `nox -s tests -- tests/memory -x`."""
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, the examples inside the rule files, and the prose of pages."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("memlint", "test")
    session.run("python", "tools/prose.py")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, into site/; a dead link or a page outside of every list fails."""
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "docs", "site")


@nox.session
def pages(session: nox.Session) -> None:
    """What is written from code and data: pages of rules and keys, schemas, what README shows, coverage, accuracy."""
    tools = (
        "rule_pages",
        "keys_pages",
        "schema_descriptions",
        "coverage",
        "cost_page",
        "guide_figures",
        "man_page",
        "readme",
    )
    for tool in tools:
        session.run("python", f"tools/{tool}.py", *session.posargs)
    session.run("python", "benchmarks/accuracy/page.py", *(session.posargs or ["--write"]), silent=True)


@nox.session(name="release-dry-run")
def release_dry_run(session: nox.Session) -> None:
    """Everything of a release but the uploads: `pip install -e '.[release]'` first. What was built is in dist/."""
    session.run("python", "tools/man_page.py", "--check")
    session.run("zizmor", "--offline", "--persona", "pedantic", ".github/workflows", "action.yml", external=True)
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", ".github/workflows/release.yml")
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml")
    session.run("python", "tools/release.py", "check", *session.posargs)


@nox.session
def image(session: nox.Session) -> None:
    """Builds and runs the container image without a Docker daemon; needs buildah and debootstrap, as root."""
    session.run("bash", "tools/image.sh", *session.posargs, external=True)


@nox.session
def snapshot(session: nox.Session) -> None:
    """The rules as one file that a start reads fast: memlint/_shipped/rules.jsonl, as an editable install has it."""
    session.run("python", "tools/rule_snapshot.py")


@nox.session
def catalog(session: nox.Session) -> None:
    """The model catalog in its normal form, its counts against transformers on the meta device; the index of families
    (memory/families/index.json)."""
    session.run("python", "tools/catalog_index.py")
    session.run("python", "tools/catalog_verify.py")
    session.run("python", "tools/family_index.py")


@nox.session
def families(session: nox.Session) -> None:
    """A small member of every model family, simulated and estimated (minutes): docs/families.md, deviations.json."""
    session.run("python", "benchmarks/referee/families.py", "--write", *session.posargs)


@nox.session
def speed(session: nox.Session) -> None:
    """What memlint costs beside other linters, docs/speed.md: arguments as in benchmarks/speed/linters.py --help."""
    session.run("python", "benchmarks/speed/linters.py", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """How many planted faults the tests notice, in the rooms where a silent mistake would hurt most."""
    session.run("python", "benchmarks/robustness/mutants.py", *session.posargs)
