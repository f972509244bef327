"""Tests lie as the code lies: a module of some size has a test file named after it, or is listed with what covers it.

`memlint/formats/schema/refs.py` is tested in `tests/formats/schema/test_refs.py`, a package's `__init__.py` in
`test_<package>.py` beside the package's folder. What stands in `COVERED` is reached through something larger: a
framework's whole reader, a step of the estimator beside the real one, a command, a law over every row of a table.
"""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "memlint"
SMALL = 40  # lines of code, without docstrings and comments
# Lines of the tokenizer that hold no code.
LAYOUT = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)
# Test file -> the modules that it covers, by their names below memlint.
COVERED = {
    "tests/test_record.py": ("_record_constructors",),
    "tests/commands/test_refusals.py": ("cli", "commands.options"),
    "tests/commands/test_terminal.py": ("commands.consent", "lint.select_files"),
    # One reader per framework: a config goes in, the run comes out.
    "tests/formats/axolotl/test_axolotl_runs.py": (
        *("formats.axolotl.config", "formats.axolotl.format", "formats.axolotl.issues", "formats.axolotl.loss"),
        *("formats.axolotl.method", "formats.axolotl.model", "formats.axolotl.parallel", "formats.axolotl.releases"),
        *("formats.axolotl.recognise", "formats.axolotl.training", "formats.axolotl.unmodelled"),
        "formats.axolotl.experts",
        "memory.layers.fused_adapter",
    ),
    "tests/formats/llamafactory/test_semantics.py": (
        *("formats.llamafactory.config", "formats.llamafactory.families", "formats.llamafactory.issues"),
        "formats.llamafactory.format",
        "formats.llamafactory.keys_v1",
        *("formats.llamafactory.loss", "formats.llamafactory.method", "formats.llamafactory.model"),
        *("formats.llamafactory.parallel", "formats.llamafactory.releases", "formats.llamafactory.training"),
        "formats.llamafactory.shipped_deepspeed",
        *("formats.llamafactory.v0", "formats.llamafactory.v1"),
    ),
    "tests/formats/llamafactory/test_keys.py": ("formats.llamafactory.precision",),
    "tests/formats/trainer/test_trainer_runs.py": (
        *("formats.trainer.format", "formats.trainer.issues", "formats.trainer.loss", "formats.trainer.method"),
        *("formats.trainer.model", "formats.trainer.parallel", "formats.trainer.quantized"),
        *(
            "formats.trainer.reader",
            "formats.trainer.recognise",
            "formats.trainer.releases",
            "formats.trainer.training",
        ),
        "formats.training_arguments.arguments",
        *("formats.accelerate.fsdp", "formats.base", "formats.keys"),
    ),
    "tests/fixes/test_rollout_moves.py": ("fixes.moves.rollout",),
    "tests/formats/verl/test_verl_runs.py": (
        *("formats.verl.batches", "formats.verl.config", "formats.verl.edits", "formats.verl.format"),
        *(
            "formats.verl.engine_keys",
            "formats.verl.issues",
            "formats.verl.keys",
            "formats.verl.keys_sft",
            "formats.verl.model",
            "formats.verl.parallel",
        ),
        *("formats.verl.composed", "formats.verl.recognise", "formats.verl.releases", "formats.verl.rollout"),
    ),
    "tests/formats/easyr1/test_easyr1_runs.py": (
        *("formats.easyr1.format", "formats.easyr1.keys", "formats.easyr1.reading"),
    ),
    "tests/formats/skyrl/test_skyrl_runs.py": (
        *("formats.skyrl.behaviour", "formats.skyrl.config", "formats.skyrl.format", "formats.skyrl.keys"),
        *("formats.skyrl.reading", "formats.skyrl.refused", "formats.skyrl.roles", "formats.section_edits"),
    ),
    "tests/formats/slime/test_slime_runs.py": (
        "formats.slime.backend",
        *("formats.slime.issues", "formats.slime.keys", "formats.slime.reading", "formats.slime.refused"),
        "formats.slime.roles",
    ),
    "tests/formats/areal/test_areal_runs.py": (
        *("formats.areal.allocation", "formats.areal.batches", "formats.areal.config", "formats.areal.format"),
        "formats.areal.mandatory",
        *("formats.areal.issues", "formats.areal.keys", "formats.areal.placement", "formats.areal.recognise"),
        *("formats.areal.refused", "formats.areal.refused_engines", "formats.areal.roles", "formats.areal.training"),
    ),
    "tests/formats/torchtitan/test_torchtitan_runs.py": (
        *("formats.torchtitan.format", "formats.torchtitan.keys", "formats.torchtitan.reading"),
    ),
    "tests/formats/nemo_rl/test_nemo_rl_runs.py": (
        *("formats.nemo_rl.batches", "formats.nemo_rl.config", "formats.nemo_rl.format", "formats.nemo_rl.issues"),
        *("formats.nemo_rl.keys", "formats.nemo_rl.megatron", "formats.nemo_rl.placement", "formats.nemo_rl.recognise"),
        "formats.nemo_rl.training",
    ),
    "tests/formats/autotrain/test_autotrain_runs.py": (
        *("formats.autotrain.config", "formats.autotrain.format", "formats.autotrain.issues"),
        *("formats.autotrain.keys", "formats.autotrain.translate"),
    ),
    "tests/formats/oumi/test_oumi_runs.py": (
        *("formats.oumi.config", "formats.oumi.engine", "formats.oumi.format", "formats.oumi.issues"),
        *("formats.oumi.keys", "formats.oumi.translate"),
    ),
    "tests/formats/torchtune/test_torchtune_runs.py": (
        *("formats.torchtune.config", "formats.torchtune.families", "formats.torchtune.format"),
        *("formats.torchtune.issues", "formats.torchtune.keys", "formats.torchtune.parallel"),
        *("formats.torchtune.recipes", "formats.torchtune.training"),
    ),
    "tests/memory/test_torchtune_step.py": ("memory.loss.in_parts",),
    "tests/formats/openrlhf/test_openrlhf_runs.py": (
        *("formats.openrlhf.batches", "formats.openrlhf.config", "formats.openrlhf.edits", "formats.openrlhf.engine"),
        *("formats.openrlhf.format", "formats.openrlhf.issues", "formats.openrlhf.keys", "formats.openrlhf.model"),
        *("formats.openrlhf.placement", "formats.openrlhf.rollout"),
    ),
    "tests/formats/megatron/test_megatron_runs.py": (
        *("formats.megatron.engine", "formats.megatron.issues", "formats.megatron.keys", "formats.megatron.model"),
        "formats.megatron.parallel",
    ),
    "tests/formats/swift/test_swift_runs.py": (
        "formats.distillation",
        *("formats.swift.config", "formats.swift.edits", "formats.swift.format", "formats.swift.keys"),
        *("formats.swift.behaviour", "formats.swift.megatron", "formats.swift.translate"),
    ),
    "tests/formats/deepspeed/test_deepspeed.py": (
        *("formats.deepspeed.batch", "formats.deepspeed.format", "formats.deepspeed.optimizer"),
        *("formats.deepspeed.precision", "formats.deepspeed.recognise", "formats.deepspeed.zero"),
    ),
    "tests/formats/deepspeed/test_keys.py": ("formats.deepspeed.edits",),
    "tests/formats/accelerate/test_accelerate.py": ("formats.accelerate.issues", "formats.accelerate.parallel"),
    "tests/formats/test_training_arguments.py": ("formats.training_arguments.keys",),
    # Every tensor of every family by name and shape, beside the classes of transformers.
    "tests/architectures/test_families.py": (
        *("architectures.assemble", "architectures.blocks", "architectures.towers", "architectures.families.dense"),
        *("architectures.families.encoders", "architectures.families.vision_language"),
        "architectures.families.combined",
        "architectures.families.captioners",
        "architectures.families.document_readers",
        *("architectures.families.pre_norm_encoders", "architectures.families.older_encoders"),
        *("architectures.families.recurrent_hybrids", "architectures.families.sparse_encoder_decoders"),
        *("architectures.families.experts", "architectures.families.gemma", "architectures.families.gemma_n"),
        *("architectures.families.experts_by_layer", "architectures.families.delta_rule"),
        "architectures.families.short_convolution",
        *("architectures.families.gpt", "architectures.families.state_space", "architectures.families.latent"),
        *("architectures.families.llama", "architectures.families.mixture", "architectures.families.multimodal"),
        *("architectures.families.composite", "architectures.families.phi4_multimodal"),
        *(f"architectures.families.{name}_multimodal" for name in ("gemma", "llama", "qwen")),
        *("architectures.families.pre_llama", "architectures.families.qwen_vision", "architectures.model"),
    ),
    "tests/architectures/test_catalog.py": ("architectures.families.trust_remote_code",),
    "tests/memory/layers/test_stored_profiles.py": ("memory.layers.structure", "memory.layers.typical_layers"),
    # Bytes of a step, beside the same step on fake tensors or worked out by hand.
    "tests/memory/test_estimate.py": (
        *(
            "memory.segments.step",
            "memory.segments.of_model",
            "memory.segments.encoder_decoder",
            "memory.segments.embedding",
            "memory.loss.head",
        ),
        *("memory.loss.shape", "memory.loss.end", "memory.loss.log_probabilities"),
        *("memory.phases", "memory.values", "memory.evaluation", "memory.autograd.ops"),
        *("memory.autograd.walk", "memory.card.allocator_overhead", "memory.families.traits"),
        *("memory.layers.activations", "memory.layers.attention", "memory.layers.elements"),
        *("memory.layers.kernel_config", "memory.families.lookup", "memory.sharding.unsharded"),
        *("memory.state.model_state", "memory.unknown.unmodelled"),
    ),
    "tests/memory/test_simulated_cases.py": (
        *(
            "memory.layers.decoder_layer",
            "memory.layers.latent_attention",
            "memory.layers.activation_functions",
            "memory.layers.mlp",
            "memory.layers.moe",
        ),
        *("memory.layers.norm", "memory.families.dense", "memory.families.gemma"),
        *("memory.families.glm", "memory.families.gpt", "memory.families.llama", "memory.families.qwen"),
        *("memory.families.experts", "memory.families.hybrid", "memory.families.mistral"),
    ),
    "tests/memory/card/test_first_steps.py": ("memory.card.replayed_tensors",),
    "tests/memory/layers/test_moe_scatter.py": ("simulation.scattered_experts",),
    "tests/memory/test_stages.py": ("simulation.stages",),
    "tests/memory/state/test_parameters.py": ("memory.state.storage",),
    "tests/memory/card/test_device.py": ("memory.card.figures", "memory.card.interval"),
    "tests/memory/layers/test_state_space.py": ("memory.layers.mamba2",),
    "tests/memory/state/test_adapters.py": ("memory.layers.projection",),
    "tests/memory/sharding/test_reduction.py": ("memory.sharding.zero.reduction",),
    "tests/memory/sharding/test_fsdp.py": (
        *("memory.sharding.fsdp.plan", "memory.sharding.fsdp.state", "memory.sharding.fsdp.version1"),
        "memory.sharding.fsdp.version2",
    ),
    "tests/memory/sharding/test_trace.py": ("memory.sharding.zero.trace",),
    "tests/memory/sharding/test_zero.py": (
        *("memory.sharding.zero.layout", "memory.sharding.zero.stage3", "memory.sharding.zero.stages12"),
    ),
    "tests/memory/vision/test_towers.py": (
        *("memory.families.image_text", "memory.vision.patches", "memory.vision.projector", "memory.vision.tower_ends"),
    ),
    "tests/simulation/test_step.py": (
        *("simulation.attention", "simulation.build", "simulation.checkpoints", "simulation.from_run"),
        *("simulation.fused_adapters", "simulation.liger", "simulation.losses", "simulation.optimizers"),
        *("simulation.precision", "simulation.quantized", "simulation.replay", "simulation.result"),
        *("simulation", "simulation.sharding", "simulation.tracker"),
    ),
    "tests/commands/test_simulate.py": ("simulation.as_estimate",),
    # The rule language and the rules.
    "tests/expressions/test_expression.py": (
        *("expressions.build", "expressions.check", "expressions.facts", "expressions.vocabulary_schema"),
    ),
    "tests/laws/test_run_fields.py": ("run",),
    "tests/ruleset/test_engine.py": ("ruleset.rule", "ruleset.rule_fixes", "ruleset.rule_hits"),
    "tests/laws/test_reader_laws.py": ("ruleset.reader_findings",),
    "tests/ruleset/test_shipped_rules.py": (
        *("ruleset.examples", "ruleset.python.fragmentation", "ruleset.python.needless_offload"),
        *("ruleset.python.newest_only", "ruleset.python.unfilled_auto", "ruleset.release_reading"),
    ),
    # Fixes: what is offered, and that what is written says it.
    "tests/fixes/test_attach.py": (
        "fixes.rule_patches",
        *(
            "fixes.consequences",
            "fixes.moves.hardware",
            "fixes.moves.releases",
            "fixes.plan_options",
            "fixes.written_plans",
        ),
    ),
    "tests/fixes/test_attempt.py": ("fixes.apply",),
    "tests/fixes/test_planned_as_read.py": (
        *("formats.axolotl.entailed", "formats.llamafactory.entailed", "formats.trainer.entailed"),
        "formats.oumi.entailed",
    ),
    "tests/fixes/test_costs.py": ("fixes.step_time",),
    "tests/fixes/test_planner.py": (*("fixes.plan", "fixes.plan_search", "fixes.proposed_change", "fixes.tiers"),),
    "tests/fixes/test_goals.py": ("fixes.checklist",),
    "tests/fixes/test_edits.py": ("fixes.edits.apply", "fixes.edits.json", "fixes.edits.scalars", "fixes.edits.yaml"),
    "tests/fixes/test_second_opinion.py": ("fixes.edits.second_opinion",),
    "tests/fixes/test_moves.py": ("fixes.moves.catalog", "fixes.moves.host"),
    # From the outside: a folder, a command, what it prints.
    "tests/commands/test_check.py": (
        *("lint.analyse_file", "lint.baseline", "lint.context_facts", "lint.linter", "lint.report_file"),
        *("lint.suppress", "formats.issues", "ruleset.format_findings"),
    ),
    "tests/lint/test_selection.py": ("lint.rule_catalog",),
    "tests/commands/test_written_files.py": ("commands.output",),
    "tests/commands/test_fix.py": ("commands.fixing", "commands.explain", "commands.new_rule", "commands.test"),
    "tests/commands/test_diff.py": (
        *("report.comparison.json", "report.comparison.markdown", "report.comparison.model", "report.comparison.text"),
        *("repository.files.commit", "repository.files.git", "revisions.file_change", "revisions.side"),
    ),
    "tests/commands/test_html.py": ("report.html",),
    "tests/report/test_formats.py": (
        *("findings", "report.json", "report.markdown", "report.model", "report.rdjson", "report.sarif"),
        *("report.overview", "report.table", "report.text"),
    ),
    "tests/commands/test_choices.py": ("commands.cards", "commands.other_model"),
    # Questions without a file: plain values go in, files and figures come out.
    "tests/commands/test_estimate.py": (
        *("commands.models", "commands.optimizers", "commands.question_options", "commands.what_if"),
        *("question.render", "report.arithmetic"),
    ),
    "tests/question/test_files.py": (
        *("question.defaults", "question.llamafactory", "question.model", "question.models", "question.sharding"),
    ),
    "tests/question/test_cards.py": ("question.serving",),
    "tests/question/test_changes.py": ("question.compare", "question.plot", "question.sweep"),
    # What a library hands out, a training measures, a job starts, an agent asks.
    "tests/api/test_calls.py": ("", "api.results", "api.sources", "report.notebook"),
    "tests/commands/test_plan.py": ("lint.plans", "report.plans"),
    "tests/commands/test_fix_choices.py": ("lint.fix_files",),
    "tests/commands/test_run.py": ("lint.preflight",),
    "tests/train/test_training.py": (
        *("lint.training_record", "train.callback", "train.live", "train.loop", "train.meters", "train.phases"),
        *("train.predict", "train.record", "train.session"),
    ),
    # A session of an editor, from its messages to its diagnostics.
    "tests/lsp/test_handlers.py": (
        *("lsp.actions", "lsp.diagnostics", "lsp.hover", "lsp.lens", "lsp.server", "lsp.session"),
    ),
    "tests/lsp/test_completion.py": ("lsp.keys",),
    "tests/report/test_vocabulary.py": ("report.card_figures",),
    "tests/repository/files/test_discovery.py": ("repository.files.globs",),
    "tests/repository/test_launches.py": (
        *("repository.launch.index", "repository.launch.pages", "repository.launch.snippets"),
        "repository.launch.files",
    ),
    "tests/repository/test_launch_variables.py": ("repository.launch.parse",),
    "tests/repository/test_unknown_launcher.py": ("repository.launch.unknown_launcher",),
    "tests/repository/test_missing_engine_file.py": ("repository.launch.missing_engine_file",),
    "tests/repository/test_launched.py": ("repository.launch.apply",),
    "tests/settings/test_settings.py": ("settings.effective", "settings.files", "settings.model"),
    "tests/source/test_spans.py": ("source.document", "source.layout"),
    "tests/source/test_limits.py": ("source.load",),
    "tests/test_plugins.py": ("plugins.calls",),
    # Scripts: a shell script, a Python file or a notebook goes in, documents come out.
    "tests/fixes/test_python_edits.py": ("fixes.edits.python",),
    "tests/fixes/test_shell_opinion.py": ("fixes.edits.shell",),
    "tests/formats/trainer/test_python_runs.py": (
        *("formats.trainer.python.libraries", "formats.trainer.python.model", "formats.trainer.python.runs"),
        *("formats.trainer.python.loop", "formats.trainer.python.lengths", "formats.trainer.python.embeddings"),
        *("formats.trainer.python.frozen", "formats.trainer.python.other_models"),
        *("formats.trainer.python.optimizers", "formats.trainer.python.own_fsdp", "formats.trainer.python.fsdp_plugin"),
        *("formats.trainer.python.python_run", "formats.trainer.python.trainer_call"),
        "formats.trainer.python.unmodelled",
    ),
    "tests/formats/trainer/test_own_models.py": (
        *("formats.trainer.python.own_models", "formats.trainer.python.encoders", "formats.trainer.python.loop_batch"),
    ),
    "tests/fixes/test_toml_edits.py": ("fixes.edits.toml",),
    "tests/formats/trainer/test_lightning.py": (
        *("formats.trainer.python.lightning", "formats.trainer.python.lightning_calls"),
    ),
    "tests/formats/trainer/test_taken.py": (
        *("formats.trainer.python.taken", "formats.trainer.python.argument_releases"),
    ),
    "tests/formats/trainer/test_refused.py": (*("formats.trainer.python.refused", "formats.trainer.argument_names"),),
    "tests/formats/trainer/test_meant.py": ("formats.trainer.exempt_rules",),
    "tests/repository/test_declared_keys.py": ("repository.python.declared",),
    "tests/repository/test_python_documents.py": (
        *("repository.python.configs", "repository.python.documents", "repository.python.readers"),
    ),
    "tests/repository/test_starts.py": ("repository.launch.starts",),
    "tests/ruleset/test_index.py": ("ruleset.necessary",),
    "tests/repository/scripts/test_refused.py": ("repository.scripts.completeness",),
    "tests/repository/test_workspace.py": ("repository.files.rooted_files",),
    "tests/repository/reader/test_config_reader.py": ("repository.reader.script_index",),
    "tests/lint/many/test_merge_reports.py": (
        "lint.started_runs",
        "lint.repeated_findings",
    ),
    "tests/repository/scripts/test_documents.py": (
        "repository.programs",
        *("repository.scripts.commands", "repository.scripts.definitions", "repository.scripts.document"),
        *("repository.scripts.jobs", "repository.scripts.makefiles", "repository.scripts.notebooks"),
        *("repository.scripts.dstack", "repository.scripts.part"),
        *("repository.scripts.evaluation", "repository.scripts.launch_file"),
        *("repository.scripts.read", "repository.scripts.arguments", "repository.scripts.files"),
        "repository.scripts.start",
        *("repository.scripts.slurm", "repository.scripts.translate", "repository.scripts.known_programs"),
        *("repository.scripts.values", "repository.scripts.world"),
    ),
    "tests/source/python/test_follow.py": (
        *("source.python.builtin_functions", "source.python.calls", "source.python.classes"),
        *("source.python.config_files", "source.python.expressions", "source.python.members"),
        *("source.python.methods", "source.python.modules", "source.python.notebook"),
        *("source.python.operations", "source.python.parameters", "source.python.reader"),
        *("source.python.standard_library", "source.python.statements", "source.python.text"),
        *("source.python.rounds", "source.python.values"),
    ),
    "tests/source/shell/test_following.py": (
        *("source.shell.arithmetic", "source.shell.builtins", "source.shell.conditions", "source.shell.counting"),
        *("source.shell.expansion", "source.shell.filters", "source.shell.interpreter"),
        *("source.shell.parameters", "source.shell.patterns", "source.shell.redirections", "source.shell.state"),
        *("source.shell.text", "source.shell.tree", "source.shell.wrappers"),
    ),
}


@cache
def modules() -> dict[str, Path]:
    """Every module that is not small, by its name below memlint."""
    paths = (path for path in sorted(PACKAGE.rglob("*.py")) if lines_of_code(path.read_text("utf-8")) > SMALL)
    return {_name(path): path for path in paths}


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def lines_of_code(source: str) -> int:
    """Lines of a module that hold code: neither blank, nor comments, nor docstrings."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            held -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(held)


def own_test(module: str) -> Path:
    """Where the test file of a module lies: `formats.keys` in tests/formats/test_keys.py, `_lazy` in test_lazy.py."""
    *folders, name = module.split(".")
    return ROOT.joinpath("tests", *folders, f"test_{name.lstrip('_')}.py")


def listed() -> list[str]:
    return [module for names in COVERED.values() for module in names]


def test_every_module_of_some_size_is_tested_by_its_name_or_listed() -> None:
    alone = [name for name in modules() if not own_test(name).exists() and name not in listed()]

    assert alone == [], "write the test file of its name, or list what covers it"


def test_what_is_listed_is_there_and_has_no_file_of_its_own() -> None:
    assert [path for path in COVERED if not (ROOT / path).is_file()] == []
    assert [name for name in listed() if name not in modules()] == [], "gone, renamed or small by now"
    assert [name for name in listed() if own_test(name).exists()] == [], "has a test file of its own"


def test_each_module_is_listed_once() -> None:
    assert len(listed()) == len(set(listed()))


def test_lines_of_code_are_those_that_run() -> None:
    source = '"""Doc.\n\nMore.\n"""\n\n# why\nx = (\n    1,\n)  # note\n\n\ndef f():\n    """Doc."""\n    return x\n'

    assert lines_of_code(source) == 5
    assert lines_of_code("") == 0
