"""The shape of the house: which way imports point, and what a start may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "memlint"

# A room may import from rooms of a lower level, and from its own.
LEVELS = {
    "_record_constructors": -3,
    "_record": -2,
    "_lazy": -1,
    "atomic_files": -1,
    "file_access": -1,
    "identity_cache": -1,
    "card_bytes": -1,
    "plugin_registry": -1,
    "errors": -1,
    "run": 0,
    "rule_groups": -1,
    "rule_selectors": 0,
    "findings": 0,
    "shipped_data": 0,
    "source": 1,
    "memory.families": 1,  # rows that import nothing, which formats ask too
    "architectures": 2,
    "hardware": 2,
    "formats": 3,
    "memory": 3,
    "suppressions": 4,
    "expressions": 4,
    "repository": 5,
    "settings": 6,
    "report": 6,
    "crash_report": 7,
    "ruleset": 7,
    "fixes": 8,
    "simulation": 8,
    "plugins": 8,
    "lint": 9,
    "lsp": 10,
    "revisions": 10,
    "question": 10,
    "api": 11,
    "train": 12,
    "agents": 12,
    "commands": 13,
    "cli": 14,
    "__main__": 15,
}
FORBIDDEN_AT_START = {
    *("torch", "transformers", "accelerate", "peft", "jsonschema", "ruamel", "rich", "asyncio", "logging"),
    *("importlib.metadata", "huggingface_hub", "dataclasses", "inspect"),
}
# Imports inside functions: module -> what it imports when it needs it, and why not before.
ON_DEMAND = {
    "": ("api.public",),  # `import memlint` imports nothing
    "lint.many.result_cache": ("repository.written_models",),  # where a kept result depends on what a file writes
    "cli": (  # `--version` imports nothing
        *("commands", "errors", "crash_report", "formats.schema.suggest", "report.terminal", "report.wrap"),
    ),
    "architectures.catalog": ("architectures.catalog_names",),  # names that the catalog does not list as they are
    "commands.check": (  # options that few use; many files
        *("commands.fixing", "commands.watch", "lint.baseline", "lint.rule_facts", "lint.what_if"),
        *("repository.dependents", "lint.many.result_cache", "commands.other_model"),
    ),
    "commands.diff": ("lint",),
    # a second YAML parser, and bash's own, for files to be written
    "lint.fix_files": ("fixes.edits.second_opinion", "fixes.edits.shell_opinion"),
    "commands.lsp": ("lsp.handlers",),  # pygls, an extra
    "commands.mcp": ("agents.server",),  # the SDK, an extra
    "commands.options": ("lint.settings_table", "report.wrap"),  # --show-settings, --help
    "commands.output": ("atomic_files", "report.wrap"),  # --output; for terminals
    "commands.simulate": ("simulation", "simulation.as_estimate"),  # PyTorch
    "lint.analyse_file": (  # where a finding wants a fix, where something has failed
        *("fixes.attach", "fixes.rule_patches", "ruleset.rule_fixes", "ruleset.internal_error"),
    ),
    "lint.linter": ("ruleset.internal_error",),  # where something has failed
    "lint.many.merge_reports": ("lint.many.packed_reports",),  # many files
    "lint.many.pool": ("lint.many.workers", "report.progress"),  # many files, terminals
    "lint.plugin_choice": ("plugins", "ruleset.rule"),  # --plugin
    "lint.report_file": ("lint.what_if",),  # only pages have a grid
    # Reports that show origins, configs that a command launches; tables of runs without a number of GPUs.
    "lint.summary": ("lint.assumptions", "memory.unknown.gpu_numbers"),
    "lint.rule_catalog": ("ruleset.folder", "memory.card.calibrated"),  # somebody's own rules, measurements
    # findings about a config that commands may launch; a changed file
    "ruleset.engine": (
        *("ruleset.under_commands", "ruleset.reads", "repository.launch.several_numbers"),
        "ruleset.internal_error",  # where something has failed
        *("ruleset.reader_findings", "ruleset.rule_fixes"),  # where something is found
    ),
    "ruleset.rule_hits": ("expressions.render",),  # where a rule finds something
    "ruleset.shipped": ("ruleset.sources", "ruleset.stamps"),  # is the snapshot current? asked in checkouts
    "formats.fields": ("formats.longest_sample",),  # where the user states one
    "formats.hardware": ("formats.longest_sample",),  # as above
    "formats.schema.validate": ("formats.schema.violations",),  # where a schema has something against a file
    "settings.meaning": ("settings.arguments",),  # the classes' arguments: where `keys:` names some
    "expressions.derived_facts": (  # where an engine shares the card, where a run does not fit
        *("memory.generation.rollout", "memory.unknown.full_length"),
    ),
    "lint.select_files": ("repository.shipped_examples",),  # where settings leave them out
    "fixes.edits.python": ("fixes.edits.toml",),  # where a script reads TOML
    "settings.files": ("settings.toml",),  # tomllib: where a TOML file has to do with memlint
    "architectures.resolve": ("architectures.exact", "architectures.hub"),  # --exact, --hub
    "repository.files.tracked": (
        "repository.files.git",
    ),  # subprocess: where something is ignored, or launches are looked for
    "repository.workspace": (  # where a run leaves its engine or GPUs open; where keys are the repository's own
        *(
            "repository.launch.index",
            "repository.launch.pages",
            "repository.reader.python_arguments",
            "repository.reader.config_reader",
            "repository.reader.program_modules",
            "repository.reader.filled_in",
            "repository.files.walk",
            "repository.written_models",  # where nobody knows a model's folder
        ),
    ),
    "repository.programs": (
        *("repository.scripts.files", "repository.scripts.read"),  # where a script is checked
        *("repository.python.documents", "source.python.text"),  # where a script is checked
        *("repository.python.config_texts", "repository.python.configs"),  # where no format knows a file
        "repository.python.declared",  # where settings explain a file's keys
        "source.python.notebook",  # where a notebook is too large
    ),
    "repository.launch.index": (
        "repository.launch.parse",
        "repository.launch.files",
        "repository.launch.starts",  # where a script has a command line
    ),  # where a page names a config
    "repository.versions.pins": ("repository.versions.pip_commands",),  # where a script installs
    "settings.effective": ("repository.declared_keys",),  # where a file declares some
    "repository.launch.files": ("formats.accelerate.recognise",),  # where a file may be a launch file
    "repository.launch.unknown_launcher": ("repository.scripts.commands",),  # where a command names the config
    # for folders, and --statistics; for terminals; for runs without a figure
    "report.text": ("report.overview", "report.wrap", "report.changes", "report.unknowns"),
    "report.table": ("report.wrap",),  # for terminals
    "fixes.edits.apply": (
        "fixes.edits.toml",
        "fixes.edits.shell",
        "fixes.edits.python",
    ),  # where a fix changes a script
    "source.load": ("source.json", "source.toml"),  # most configs are YAML
    "source.yaml": ("source.messages",),  # where a file is no YAML
    "repository.launch.apply": ("formats.engine_files",),  # where a command names a file
    # where --with names one; where a script may install something
    "lint.context_facts": ("formats.engine_files", "repository.versions.own_installs"),
    "formats.llamafactory.format": ("formats.llamafactory.edits", "formats.llamafactory.v1"),  # fixes; few files are v1
    "formats.llamafactory.parallel": (  # where a file stands beside the config, or is named in it
        *("formats.engine_files", "formats.llamafactory.shipped_deepspeed"),
    ),
    "formats.llamafactory.v0": ("formats.llamafactory.entailed",),  # plans
    "formats.axolotl.format": ("formats.axolotl.edits", "formats.axolotl.entailed"),  # fixes, plans
    "formats.trainer.format": (  # fixes, plans, findings
        *("formats.trainer.edits", "formats.trainer.entailed", "formats.trainer.exempt_rules"),
    ),
    "formats.verl.format": ("formats.verl.edits",),  # fixes
    "formats.easyr1.format": ("formats.easyr1.edits",),  # fixes
    "formats.skyrl.format": ("formats.skyrl.edits",),  # fixes
    "formats.areal.format": ("formats.areal.edits",),  # fixes
    "formats.torchtitan.format": ("formats.torchtitan.edits",),  # fixes
    "formats.nemo_rl.format": ("formats.nemo_rl.edits",),  # fixes
    "formats.torchtune.format": ("formats.torchtune.edits",),  # fixes
    "formats.torchtune.config": ("formats.torchtune.shipped",),  # where a command names a config of torchtune's own
    "formats.swift.format": ("formats.swift.edits",),  # fixes
    "formats.oumi.format": ("formats.oumi.edits", "formats.oumi.entailed"),  # fixes, plans
    "formats.autotrain.format": ("formats.autotrain.edits", "formats.autotrain.entailed"),  # fixes, plans
    "formats.openrlhf.format": ("formats.openrlhf.edits",),  # fixes
    "memory.estimate": (  # what few runs do
        *(
            "memory.unsloth",
            "memory.vision.towers",
            "memory.generation.completions",
            "memory.generation.inference",
            "memory.generation.serving",
        ),
        *(
            "memory.segments.checkpoint_offload",
            "memory.evaluation",
            "memory.state.frozen_models",
            "memory.unknown.lower_bounds",
            "memory.unknown.gpu_numbers",
        ),
    ),
    "memory.details": ("memory.host", "memory.vision.images"),
    # distillation; preference and reinforcement; few training loops
    "memory.loss.head": (
        *("memory.loss.divergence", "memory.loss.log_probabilities", "memory.loss.in_parts"),
        "memory.layers.activation_functions",  # few heads have a layer of their own
    ),
    "memory.unknown.lower_bounds": ("memory.host", "memory.sharding.pipeline", "architectures.stated_size"),
    "memory.state.model_state": ("memory.sharding.hosted_experts",),
    "memory.unknown.unmodelled": ("memory.unsloth", "memory.vision.towers"),
    "memory.layers.projection": ("memory.layers.fused_adapter",),  # Unsloth's kernels
    "memory.layers.int8_product": ("memory.layers.float8_product",),
    "memory.layers.profiles": ("memory.layers.activations",),  # layers that no build has recorded
    "memory.layers.stored_profiles": ("memory.layers.profile_stamps",),  # are they current? asked in checkouts
    "memory.card.figures": ("memory.card.cached_blocks", "memory.card.first_steps"),  # full fine-tuning on one GPU
    "memory.card.interval": (  # what few runs do
        *("memory.unsloth", "memory.vision.images", "memory.vision.towers"),
        *("memory.host", "memory.sharding.zero.layout"),
    ),
    "memory.sharding.packed_experts": ("memory.sharding.zero.layout",),  # ZeRO-3
    "memory.sharding.model_parallel": ("memory.sharding.fsdp.plan", "memory.sharding.zero.layout"),
    "memory.phases": ("memory.vision.towers",),
    "memory.layers.decoder_layer": (  # layers that few models have
        *("memory.layers.gated_delta", "memory.layers.latent_attention", "memory.layers.mamba2", "memory.layers.moe"),
        "memory.layers.altup",
        "memory.layers.disentangled_attention",
        "memory.layers.short_conv",
    ),
    "memory.segments.encoder_decoder": ("memory.layers.encoder_end", "memory.layers.mel_convolutions"),  # few models
}
# Modules that are imported by a name made of strings, and what they may reach: the four boundaries and two tables.
BY_NAME = {
    "commands.__init__": "verbs",
    "commands.output": "outputs: report.outputs names them",
    "formats.__init__": "formats, through Lazy",
    "memory.estimate": "phases of reinforcement learning, through Lazy",
    "memory.state.model_state": "sharding engines, through Lazy",
    "architectures.builder": "model families, as configs name them",
    "memory.families.lookup": "rows of model families, as models name them",
    "_lazy": "what Lazy is made of",
}
MOST_LAZY = 4


class Import(NamedTuple):
    target: str  # below memlint
    line: int
    is_late: bool  # inside a function


class Module(NamedTuple):
    name: str
    path: Path
    tree: ast.Module
    imports: tuple[Import, ...]
    is_package: bool

    def place(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"


@cache
def modules() -> dict[str, Module]:
    """Every module by its name below memlint, read and parsed once."""
    paths = {path: path.relative_to(PACKAGE).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))}
    names = {path: ".".join(part for part in parts if part != "__init__") for path, parts in paths.items()}
    known = set(names.values())
    found = {}
    for path, name in names.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[name] = Module(name, path, tree, tuple(_imports(tree, known)), path.name == "__init__.py")
    return found


def _imports(tree: ast.Module, known: set[str]) -> Iterator[Import]:
    """`from memlint.source import json` is source.json. Imports for the type checker alone are none."""
    late = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    typed = {
        id(node)
        for branch in tree.body
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for statement in branch.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in typed:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "memlint":
            package = node.module.partition(".")[2]
            for alias in node.names:
                inner = f"{package}.{alias.name}".strip(".")
                yield Import(inner if inner in known else package, node.lineno, id(node) in late)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("memlint."):
                    yield Import(alias.name.partition(".")[2], node.lineno, id(node) in late)


def room(module: str) -> str:
    inner = ".".join(module.split(".")[:2])
    return inner if inner in LEVELS else module.split(".")[0]


def test_every_room_has_a_level() -> None:
    assert {room(name) for name in modules() if name} <= set(LEVELS)


def test_arrows_point_one_way() -> None:
    against = [
        f"{module.place(one.line)} {room(name)} -> {room(one.target)}"
        for name, module in modules().items()
        if name
        for one in module.imports
        if room(one.target) != room(name) and LEVELS.get(room(one.target), -1) >= LEVELS[room(name)]
    ]

    assert against == []


def test_run_imports_only_what_makes_records() -> None:
    assert {one.target for one in modules()["run"].imports} == {"_record"}


def test_no_cycles_between_modules() -> None:
    """Imports inside functions count: one that must be late for the sake of a cycle hides it."""
    graph = {
        name: {one.target for one in module.imports if one.target in modules() and one.target != name}
        for name, module in modules().items()
    }
    done: set[str] = set()
    while len(done) < len(graph):
        ready = {name for name, targets in graph.items() if name not in done and targets <= done}
        assert ready, f"cycle among {sorted(set(graph) - done)}"
        done |= ready


def test_imports_by_a_string_are_at_named_boundaries() -> None:
    found = set()
    for name, module in modules().items():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            own = called in ("import_module", "__import__", "Lazy") and "memlint." in ast.unparse(node)
            if own or (called == "import_module" and name == "_lazy"):
                found.add(f"{name}.__init__" if module.is_package else name)

    assert found == set(BY_NAME)


def test_few_modules_are_lazy() -> None:
    calls = [
        module.place(node.lineno)
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Lazy"
    ]

    assert len(calls) <= MOST_LAZY, calls


def test_late_imports_are_at_named_boundaries() -> None:
    against = [
        f"{module.place(one.line)} {name} -> {one.target}"
        for name, module in modules().items()
        if room(name) != "simulation"  # with PyTorch, an extra
        for one in module.imports
        if one.is_late and one.target not in ON_DEMAND.get(name, ())
    ]

    assert against == []


def test_one_class_name_means_one_thing() -> None:
    homes = defaultdict(list)
    for name, module in modules().items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    shared = {name: places for name, places in homes.items() if len(places) > 1}

    assert shared == {}


@pytest.mark.parametrize("arguments", [["--version"], ["check", "examples"]])
def test_a_start_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from memlint.cli import main; main(sys.argv[1:]); "
        "sys.stderr.write('\\n'.join(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT, check=False
    )
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print('\\n'.join(sys.modules))"], capture_output=True, text=True, check=True
    )

    loaded = set(done.stderr.split()) - set(bare.stdout.split())

    assert "memlint.cli" in loaded
    assert loaded & FORBIDDEN_AT_START == set()
