"""Random runs over their card: every plan that a finding offers, and each of its steps, simulated as its file says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tests.comparisons.sharded_configs as sharded_configs
from memlint.architectures import catalog
from memlint.fixes.attempt import attempt
from memlint.fixes.plan_options import options
from memlint.fixes.written_plans import WrittenPlan, edit_writer, new_errors
from memlint.hardware import find
from memlint.lint.analyse_file import FileAnalyser, uniform_analyser
from memlint.memory import estimate as closed_form
from memlint.memory.canonical_run import canonical
from memlint.memory.values import Estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.shipped import shipped
from memlint.run import Origin, Run, differences, replace
from tests.comparisons.families import installed

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "random_plans.jsonl"
CARDS = ("RTX4090", "L40S", "A100-80GB")
LAYERS = 6
ROUNDING = 1.001  # an interval may end at the whole card, and a simulated step lie a few kB above the closed form
SIMULATED = ("forward", "backward", "optimizer_step")
_SIMULATED_CODE = {"stack.transformers": installed()}
_ASSUMED = Origin("setting", detail="assumed by the benchmark")
_ENGINE = Engine(shipped())
DENSE = (
    *("meta-llama/Llama-3.2-1B", "meta-llama/Meta-Llama-3-8B", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "01-ai/Yi-6B"),
    *("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"),
    *("mistralai/Mistral-7B-v0.1", "google/gemma-2-2b-it", "google/gemma-2-9b-it", "google/gemma-3-1b-pt"),
    *("microsoft/Phi-3-mini-4k-instruct", "allenai/OLMo-2-0425-1B", "ibm-granite/granite-3.3-2b-base"),
    *("ibm-granite/granite-3.3-8b-base", "allenai/OLMo-2-1124-7B-DPO"),
)
MIXTURES = ("mistralai/Mixtral-8x7B-v0.1", "allenai/OLMoE-1B-7B-0924", "Qwen/Qwen3-30B-A3B")
TOWERS = ("Qwen/Qwen2.5-VL-3B-Instruct", "Qwen/Qwen2-VL-2B", "google/gemma-3-4b-pt", "llava-hf/llava-1.5-7b-hf")


class Case(NamedTuple):
    """One run. `models`: names that stand for a model with fewer layers. `versions`: releases of libraries."""

    seed: int
    card: str
    framework: str
    model: str
    files: dict[str, str]
    models: dict[str, Mapping[str, Any]]
    gpus: int = 1
    versions: Mapping[str, tuple[int, ...]] = {}

    @property
    def name(self) -> str:
        return f"{self.seed} {self.framework} {self.model.rpartition('/')[2]} {self.gpus} x {self.card}"


def drawn(seed: int, several: bool = False) -> tuple[Case, Analysis, FileAnalyser]:
    """The first config of the seed's sequence that is over the budget of its card, or of each of `several`."""
    draw = random.Random(seed)
    while True:
        one = _of_several(seed, draw) if several else _case(seed, draw)
        analysis, analyser = answered(one)
        verdicts = [answer.verdict for answer in analysis.estimates]
        if verdicts and verdicts[0] in ("tight", "out_of_memory") and analysis.estimates[0].allocated_bytes:
            return one, analysis, analyser


def answered(one: Case) -> tuple[Analysis, FileAnalyser]:
    """What memlint says of a case, with the analyser that said it."""
    analyser = _analyser(one)
    return analyser.analyse("train.yaml", fixes=False).analyses[0], analyser


def read_otherwise(one: WrittenPlan, index: int = 0) -> tuple[tuple[str, Any], ...]:
    """The fields that memory reads in which the written file is another run than was planned, with its values."""
    assert one.tried.after is not None
    return differences(canonical(one.plan.run), canonical(one.tried.after.runs[index]), _SECTIONS)


_SECTIONS = tuple(name for name, default in Run._field_defaults.items() if hasattr(default, "_fields"))


def _analyser(one: Case, changed: Mapping[str, bytes] | None = None) -> FileAnalyser:
    gpus = {"gpus": one.gpus, "gpus_origin": _ASSUMED, "gpus_per_node": one.gpus}
    facts = {"gpu": find(one.card), "gpu_origin": _ASSUMED, "versions": one.versions, **gpus}
    files = {**one.files, **{path: text.decode() for path, text in (changed or {}).items()}}
    workspace = in_memory(files, one.models)
    return uniform_analyser(_ENGINE, facts, cwd="/", workspace=workspace)


def _case(seed: int, draw: random.Random) -> Case:
    framework = draw.choice(("llamafactory", "llamafactory", "trl", "axolotl"))
    name = draw.choice(draw.choice((DENSE, DENSE, DENSE, MIXTURES, TOWERS)))
    models = {}
    if name in MIXTURES:
        models = {name: {**_config(name), "num_hidden_layers": LAYERS}}
    config = _WRITTEN[framework](draw, name)
    return Case(seed, draw.choice(CARDS), framework, name, {"train.yaml": json.dumps(config)}, models)


def _of_several(seed: int, draw: random.Random) -> Case:
    framework, name = draw.choice(sharded_configs.FRAMEWORKS), draw.choice(sharded_configs.MODELS)
    gpus = 8 if framework == "verl" else draw.choice((2, 4, 8))
    files = sharded_configs.files(framework, draw, name)
    card = draw.choice(sharded_configs.CARDS)
    return Case(seed, card, framework, name, files, {name: sharded_configs.small(name)}, gpus)


def _config(name: str) -> Mapping[str, Any]:
    entry = catalog.find(name)
    assert entry is not None, name
    return entry.config


def _common(draw: random.Random) -> dict[str, Any]:
    return {
        "batch": draw.choice((1, 2, 4, 8, 16)),
        "accumulation": draw.choice((1, 2, 4, 8)),
        "length": draw.choice((1024, 2048, 4096, 8192)),
        "evaluates": draw.random() < 0.3,
    }


def _llamafactory(draw: random.Random, name: str) -> dict[str, Any]:
    common, stage = _common(draw), draw.choice(("sft", "sft", "sft", "pt", "dpo", "kto"))
    kind = draw.choice(("full", "full", "lora", "lora", "qlora", "freeze"))
    config: dict[str, Any] = {
        "model_name_or_path": name,
        "stage": stage,
        "do_train": True,
        "dataset": "d",
        "output_dir": "out",
        "template": "default",
        "finetuning_type": "lora" if kind == "qlora" else kind,
        "per_device_train_batch_size": common["batch"],
        "gradient_accumulation_steps": common["accumulation"],
        "cutoff_len": common["length"],
        "flash_attn": draw.choice(("auto", "fa2", "disabled")),
        "optim": draw.choice(("adamw_torch", "adamw_torch_fused", "adamw_8bit", "paged_adamw_32bit")),
    }
    config |= draw.choice(({"bf16": True}, {"bf16": True}, {"pure_bf16": True}, {"fp16": True}))
    if kind in ("lora", "qlora"):
        config |= {"lora_rank": draw.choice((8, 16, 64)), "lora_target": draw.choice(("all", "q_proj,v_proj"))}
    if kind == "qlora":
        config |= {"quantization_bit": 4, "double_quantization": draw.random() < 0.5}
    if kind == "freeze":
        config["freeze_trainable_layers"] = draw.choice((2, 4, 8))
    if stage == "sft":
        config["packing"] = draw.random() < 0.4
    if draw.random() < 0.2:
        config["disable_gradient_checkpointing"] = True
    if common["evaluates"]:
        config |= {"val_size": 0.1, "eval_strategy": "steps", "eval_steps": 100}
        config |= {"per_device_eval_batch_size": draw.choice((1, 4, 8))}
    return config


def _trl(draw: random.Random, name: str) -> dict[str, Any]:
    common, kind = _common(draw), draw.choice(("full", "lora", "qlora"))
    config: dict[str, Any] = {
        "model_name_or_path": name,
        "dataset_name": "d",
        "output_dir": "out",
        "bf16": True,
        "per_device_train_batch_size": common["batch"],
        "gradient_accumulation_steps": common["accumulation"],
        "max_length": common["length"],
        "gradient_checkpointing": draw.random() < 0.7,
        "attn_implementation": draw.choice(("sdpa", "flash_attention_2", "eager")),
        "packing": draw.random() < 0.4,
    }
    if draw.random() < 0.5:
        config["dtype"] = draw.choice(("bfloat16", "float32"))
    if kind != "full":
        config |= {"use_peft": True, "lora_r": draw.choice((16, 64)), "lora_target_modules": "all-linear"}
    if kind == "qlora":
        config |= {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "use_bnb_nested_quant": True}
    if common["evaluates"]:
        config |= {"eval_strategy": "steps", "per_device_eval_batch_size": draw.choice((1, 8))}
    return config


def _axolotl(draw: random.Random, name: str) -> dict[str, Any]:
    common, kind = _common(draw), draw.choice(("full", "lora", "qlora"))
    config: dict[str, Any] = {
        "base_model": name,
        "datasets": [{"path": "d", "type": "alpaca"}],
        "output_dir": "./out",
        "micro_batch_size": common["batch"],
        "gradient_accumulation_steps": common["accumulation"],
        "sequence_len": common["length"],
        "num_epochs": 1,
        "bf16": True,
        "learning_rate": 0.0002,
        "optimizer": draw.choice(("adamw_torch_fused", "adamw_bnb_8bit", "paged_adamw_8bit")),
        "gradient_checkpointing": draw.random() < 0.7,
        draw.choice(("flash_attention", "sdp_attention")): True,
        "sample_packing": draw.random() < 0.4,
    }
    if kind != "full":
        adapter = {"lora_r": 32, "lora_alpha": 16, "lora_dropout": 0.0, "lora_target_linear": True}
        config |= {"adapter": kind, **adapter, **({"load_in_4bit": True} if kind == "qlora" else {})}
    if common["evaluates"]:
        config |= {"val_set_size": 0.05, "eval_batch_size": draw.choice((1, 4))}
    return config


_WRITTEN = {"llamafactory": _llamafactory, "trl": _trl, "axolotl": _axolotl}


class Changed(NamedTuple):
    """One plan, or one step of it, as the written file says it. `promised`: bytes that the plan names; of a step alone
    nothing is promised. `fresh`: rules of errors that the written file has and the file had not."""

    title: str
    whole: bool
    promised: int | None
    run: Run
    after: Estimate
    fresh: tuple[str, ...]

    @property
    def keeps_its_promise(self) -> bool:
        return not self.whole or (self.promised == self.after.device_high_bytes and not self.fresh)


def written(analysis: Analysis, analyser: FileAnalyser) -> tuple[WrittenPlan, ...]:
    """The plans of the run that is analysed."""
    again = analyser.reanalysis(analysis, analyser.workspaces.of("train.yaml"))
    return options(analysis, 0, _ENGINE.estimator, again).options


def changed(case: Case, analysis: Analysis, analyser: FileAnalyser) -> Iterator[Changed]:
    """Every plan as a whole, then every step of one that can be said alone."""
    again = analyser.reanalysis(analysis, analyser.workspaces.of("train.yaml"))
    known = written(analysis, analyser)
    titles = {title_of(option) for option in known}
    for option in known:
        after = _reread(case, option)
        fresh = new_errors(analysis, after)
        yield Changed(
            title_of(option), True, option.plan.estimate.device_high_bytes, after.runs[0], after.estimates[0], fresh
        )
    for step in {step.title: step for option in known for step in option.plan.steps}.values():
        edits = edit_writer(analysis)(analysis.runs[0], step.changes)
        tried = attempt(analysis, edits or (), None, again)
        if step.title not in titles and tried.holds and tried.after is not None and tried.after.runs:
            yield Changed(step.title, False, None, tried.after.runs[0], tried.after.estimates[0], ())


def title_of(option: WrittenPlan) -> str:
    return "; ".join(step.title for step in option.plan.steps)


def _reread(case: Case, option: WrittenPlan) -> Analysis:
    """The written file, read by a analyser that knows nothing of the plan."""
    return _analyser(case, option.tried.contents).analyse("train.yaml", fixes=False).analyses[0]


class Row(NamedTuple):
    """One simulation beside the closed form; bytes. `low` to `closed`: of the phases that a simulation has; they differ
    where a model reads images, of which the simulated step has none."""

    title: str
    low: int
    closed: int
    simulated: int
    after: Estimate

    @property
    def error(self) -> float:
        """Relative; 0 inside of the interval."""
        nearest = min(max(self.simulated, self.low), self.closed)
        return nearest / self.simulated - 1

    @property
    def holds(self) -> bool:
        """A run that is said to fit: its simulated tensors with all that the interval adds to them fit the card."""
        added = (self.after.device_high_bytes or 0) - (self.after.allocated_bytes or 0)
        return self.after.verdict != "fits" or self.simulated + added <= ROUNDING * self.after.budget_bytes


def as_simulated(run: Run) -> Run:
    """The run with the model code of the installed release, which is what a simulation has: attention that a release
    does not know, layers that are rewritten."""
    return replace(run, _SIMULATED_CODE) if run.stack.transformers else run


def beside(one: Changed, simulated: int) -> Row:
    """The written run beside its simulated step, both with the model code of the installed release."""
    estimate = closed_form(as_simulated(one.run)) if one.run.stack.transformers else one.after
    closed = max(phase.allocated_bytes for phase in estimate.phases if phase.name in SIMULATED)
    low = min(closed, estimate.allocated_low_bytes or closed)
    return Row(one.title, low, closed, simulated, estimate)


def config_of(case: Case, one: Changed) -> Mapping[str, Any]:
    """The config.json of the run's model."""
    name = str(one.run.model.name or "")
    return case.models.get(name) or _config(name)


Key = tuple[bool, int, str]  # several cards, seed, title


def kept() -> dict[Key, int]:
    """Simulated peaks."""
    if not RESULTS.exists():
        return {}
    read = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    return {(one.get("several", False), one["seed"], one["title"]): one["peak"] for one in read}


def confirmed() -> Iterator[Row]:
    """What is offered now and was simulated, from the results that are kept."""
    known = kept()
    for several, seed in sorted({key[:2] for key in known}):
        case, analysis, analyser = drawn(seed, several)
        for one in changed(case, analysis, analyser):
            if (several, seed, one.title) in known:
                yield beside(one, known[several, seed, one.title])
