"""What a fork's copy of a framework accepts and its releases refuse."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import pytest
import yaml

from memlint.formats.axolotl import format as axolotl
from memlint.formats.deepspeed import format as deepspeed
from memlint.formats.llamafactory import format as llamafactory
from memlint.formats.trainer import format as trainer
from memlint.repository.reader.python_arguments import Python
from memlint.repository.scripts.arguments import _DIALECTS, _WITH_FILES
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

RAISES = '            raise ValueError("Cannot use LoRA with GaLore or BAdam together.")\n'
KNOWS = "if adapter == \"lora\":\n    pass\nelif adapter == 'llora':\n    pass\n"


def found(path: str, text: str) -> Python:
    return Python([path], lambda _: text.encode())


def test_a_refusal_counts_unless_it_is_commented_out() -> None:
    path = "/r/src/llamafactory/hparams/finetuning_args.py"
    assert found(path, RAISES).refusals == {"Cannot use LoRA with GaLore or BAdam together."}
    assert found(path, "#" + RAISES).refusals == frozenset()
    assert found("/r/src/other.py", RAISES).refusals == frozenset()


@pytest.mark.parametrize(
    ("key", "word", "text"),
    [
        ("adapter", "llora", KNOWS),
        ("loss_type", "reinforce", 'if self.loss_type == "reinforce":\n    pass\n'),
        ("generation.backend", "vllm_http", 'elif config["backend"] == "vllm_http":\n    pass\n'),
        ("adv_estimator.name", "maxrl", 'if adv_name == "maxrl":\n    pass\n'),
        ("algorithm.adv_estimator", "loop", '@register_advantage_estimator("loop")\ndef advantage(): ...\n'),
        ("rlhf_type", "own", "class A:\n    rlhf_type: Literal['dpo',\n        'own'] = 'dpo'\n"),
    ],
)
def test_words_that_code_takes(key: str, word: str, text: str) -> None:
    assert found("/r/src/trainer.py", text).knows(key, word)
    assert not found("/r/src/trainer.py", text).knows(key, f"{word}s")
    assert not found("/r/src/trainer.py", text).knows("seed", word)
    commented = "".join(f"# {line}\n" for line in text.splitlines())
    assert not found("/r/src/trainer.py", commented).knows(key, word)


def _skips(module: object, rule: str, config: Mapping[str, object], files: Mapping[str, str]) -> bool:
    workspace = in_memory({"train.yaml": yaml.safe_dump(dict(config)), **files})
    (document,) = workspace.documents("train.yaml")
    return bool(module.skips_rule(rule, document, workspace.context()))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("source", "skipped"),
    [("#" + RAISES + '    raise ValueError("something else")', True), (RAISES, False), ("", False)],
)
def test_a_fork_that_takes_lora_with_badam(source: str, skipped: bool) -> None:
    config = {"model_name_or_path": "a/b", "use_badam": True}
    files = {"src/llamafactory/hparams/finetuning_args.py": source}
    assert _skips(llamafactory, "LLF019", config, files) is skipped
    assert not _skips(llamafactory, "LLF001", config, files)


def _said(config: Mapping[str, object], files: Mapping[str, str]) -> set[str]:
    workspace = in_memory({"train.yaml": yaml.safe_dump(dict(config)), **files})
    found = Engine(tuple(shipped())).analyse(workspace.documents("train.yaml")[0], workspace.context()).findings
    return {one.rule for one in found}


@pytest.mark.parametrize(("adapter", "said"), [("llora", False), ("qlorra", True)])
def test_a_fork_with_an_adapter_of_its_own(adapter: str, said: bool) -> None:
    config = {"base_model": "a/b", "adapter": adapter, "micro_batch_size": 1, "sequence_len": 8, "datasets": []}
    assert ("AXO089" in _said(config, {"src/axolotl/utils/models.py": KNOWS})) is said


@pytest.mark.parametrize(("word", "said"), [("wsd_own", False), ("mine", False), ("cosin", True)])
def test_a_scheduler_that_a_trainer_of_the_repository_makes(word: str, said: bool) -> None:
    config = {"output_dir": "o", "model_name_or_path": "a/b", "learning_rate": 0.1, "num_train_epochs": 1}
    code = (
        'if args.lr_scheduler_type == "wsd_own":\n    pass\nelif args.lr_scheduler_type in ["linear", "mine"]: pass\n'
    )
    assert ("TRN019" in _said({**config, "lr_scheduler_type": word}, {"trainer.py": code})) is said


def test_releases_that_did_not_check_a_type_are_not_held_against_it() -> None:
    workspace = in_memory({"train.yaml": yaml.safe_dump({"base_model": "a/b", "save_safetensors": False})})
    (document,) = workspace.documents("train.yaml")
    for release, codes in (((0, 4, 0), []), ((0, 19, 0), ["bad-value"])):
        issues = axolotl.parse(document, workspace.context(versions={"axolotl": release})).issues
        assert [issue.code for issue in issues if issue.pointer == ("save_safetensors",)] == codes


@pytest.mark.parametrize(("word", "codes"), [("reinforce", []), ("reinforced", ["bad-value"])])
def test_a_loss_of_a_trainer_of_the_repository(word: str, codes: list[str]) -> None:
    config = {"model_name_or_path": "a/b", "dataset_name": "c/d", "output_dir": "out", "num_generations": 8}
    text = yaml.safe_dump({**config, "max_completion_length": 64, "loss_type": word, "learning_rate": 0.1})
    workspace = in_memory({"grpo.yaml": text, "own.py": 'if self.loss_type == "reinforce":\n    pass\n'})
    (document,) = workspace.documents("grpo.yaml")
    issues = trainer.parse(document, workspace.context()).issues
    assert [issue.code for issue in issues if issue.pointer == ("loss_type",)] == codes


OWN_LOOP = "import deepspeed\nengine, *_ = deepspeed.initialize(model=model, config=config)\n"
TRAINER = "from transformers import Trainer, TrainingArguments\n"


@pytest.mark.parametrize(
    ("source", "skipped"),
    [
        (OWN_LOOP, True),
        (OWN_LOOP + TRAINER, False),
        (OWN_LOOP + "from trl import SFTConfig\n", False),
        (TRAINER, False),
    ],
)
def test_a_loop_that_hands_its_file_to_deepspeed_itself(source: str, skipped: bool) -> None:
    """DeepSpeed drops `auto` by itself (0.19.8 runtime/config_utils.py:56); accelerate raises ValueError."""
    config = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"allgather_bucket_size": "auto"}}
    files = {"trainer.py": source}
    assert _skips(deepspeed, "DSP001", config, files) is skipped
    assert not _skips(deepspeed, "DSP002", config, files)


@pytest.mark.parametrize(("source", "skipped"), [(TRAINER, True), (OWN_LOOP + TRAINER, False), ("", False)])
def test_checkpoints_of_deepspeed_under_a_trainer(source: str, skipped: bool) -> None:
    """transformers' models never call deepspeed.checkpointing."""
    config = {"train_batch_size": 8, "activation_checkpointing": {"contiguous_memory_optimization": True}}
    assert _skips(deepspeed, "DSP014", config, {"trainer.py": source}) is skipped


@pytest.mark.parametrize(("loss", "skipped"), [("sigmoid", True), ("hinge", False)])
def test_a_trainer_that_computes_the_loss_itself(loss: str, skipped: bool) -> None:
    files = {"dpo.py": 'if self.loss_type == "sigmoid":\n    losses = smoothed(self.label_smoothing)\n'}
    assert _skips(trainer, "TRL019", {"loss_type": loss, "label_smoothing": 0.1}, files) is skipped


_LLAMAFACTORY = "model_name_or_path: ${MODEL}\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"


@pytest.mark.parametrize(
    ("script", "messages"),
    [
        ('CONFIG=sft.yaml\nenvsubst < "$CONFIG" > /tmp/run.yaml\nllamafactory-cli train /tmp/run.yaml\n', 0),
        ("llamafactory-cli train sft.yaml\n", 1),
        ("envsubst < other.yaml > /tmp/run.yaml\nllamafactory-cli train /tmp/run.yaml\n", 1),
    ],
)
def test_variables_that_envsubst_fills_in(script: str, messages: int) -> None:
    workspace = in_memory({"sft.yaml": _LLAMAFACTORY, "run.sh": script})
    (document,) = workspace.documents("sft.yaml")
    found = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert sum(one.rule == "CFG010" for one in found) == messages


@pytest.mark.parametrize(
    ("reads", "messages"), [("OmegaConf.load(path)", 0), ("yaml.safe_load(open(path))", 1)], ids=["omegaconf", "pyyaml"]
)
def test_omegaconf_reads_numbers_that_pyyaml_takes_for_text(reads: str, messages: int) -> None:
    script = f'path = "dpo.yaml"\nargs = HfArgumentParser(DPOConfig).parse_dict({reads})\n'
    workspace = in_memory(
        {"dpo.yaml": "learning_rate: 1e-7\noutput_dir: out\nbeta: 0.1\nmax_length: 64\n", "a.py": script}
    )
    (document,) = workspace.documents("dpo.yaml")
    found = trainer.parse(document, workspace.context()).issues
    assert sum(issue.code == "string-number" for issue in found) == messages


@pytest.mark.parametrize(("reads", "dialect"), [("OmegaConf.load(path)", "omegaconf"), ("safe_load(text)", "yaml11")])
def test_a_development_copy_of_llamafactory_reads_as_its_own_parser_does(reads: str, dialect: str) -> None:
    """0.9.4.dev0 has the keys of 0.9.3, which reads with PyYAML; most of its commits read with OmegaConf."""
    parser = f"HfArgumentParser(classes).parse_dict({reads})\n"
    workspace = in_memory({"LLaMA-Factory/src/llamafactory/hparams/parser.py": parser})
    assert llamafactory.dialect(workspace.context(versions={"llamafactory": (0, 9, 3)})) == dialect
    assert llamafactory.dialect(workspace.context(versions={"llamafactory": (0, 9, 4)})) == "omegaconf"


def test_a_command_reads_its_file_as_the_program_does() -> None:
    """LLaMA-Factory's `1e-8` is a number, in a command that names the file as in the file itself."""
    config = "model_name_or_path: a/b\nstage: sft\ndo_train: true\nfinetuning_type: lora\nadam_epsilon: 1e-8\n"
    workspace = in_memory({"sft.yaml": config, "run.sh": "llamafactory-cli train sft.yaml\n"})
    (document,) = workspace.documents("run.sh")
    assert document.value["adam_epsilon"] == 1e-8
    dialects = {name: importlib.import_module(f"memlint.formats.{name}.format").DIALECT for name in _WITH_FILES}
    assert {name: word for name, word in dialects.items() if word != "yaml11"} == _DIALECTS


OWN_CONFIG = "model_name: a/b\ntrain_data: a.json\nepochs: 2\nper_device_batch_size: 16\ndeepspeed: ds.json\n"
ZERO2 = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}'


def test_a_file_that_a_script_reads_by_itself_contradicts_no_engine() -> None:
    """The script may well pass `bf16=True`, whatever the keys of its file say."""
    script = 'import yaml\nconfig = yaml.safe_load(open("sft.yaml"))\nargs = RewardConfig(bf16=True)\n'
    files = {"sft.yaml": OWN_CONFIG + "bf16: false\noutput_dir: o\n", "ds.json": ZERO2, "train.py": script}
    workspace = in_memory(files)
    (document,) = workspace.documents("sft.yaml")
    found = Engine(tuple(shipped())).analyse(document, workspace.context(), "trainer").findings
    assert {one.rule for one in found} >= {"CFG013"} and all(one.rule != "CFG008" for one in found)


STAGE = '    stage: Literal["pt", "sft"] = field(default="sft")\n'


@pytest.mark.parametrize(
    ("word", "fields", "severities"),
    [("lb", STAGE, []), ("lbs", STAGE, ["info"]), ("lbs", "    finetuning_type: str = 'lora'\n", ["warning"])],
    ids=["asked for", "declared", "not declared"],
)
def test_a_stage_of_a_fork(word: str, fields: str, severities: list[str]) -> None:
    """Its annotation may lack the word: parse_dict checks none. What its code makes of the key, no release says."""
    config = f"model_name_or_path: a/b\nstage: {word}\ndo_train: true\nfinetuning_type: full\n"
    tuner = 'if finetuning_args.stage == "lb":\n    run_lb()\n'
    arguments = f"@dataclass\nclass FinetuningArguments:\n{fields}"
    copy = "src/llamafactory"
    files = {f"{copy}/train/tuner.py": tuner, f"{copy}/hparams/finetuning_args.py": arguments, "sft.yaml": config}
    workspace = in_memory(files)
    found = Engine(tuple(shipped())).analyse(workspace.documents("sft.yaml")[0], workspace.context()).findings
    assert [one.severity for one in found if one.location.pointer == ("stage",)] == severities


@pytest.mark.parametrize(("key", "severity"), [("eval_strategy", "error"), ("pref_loss", "info")])
def test_a_copy_decides_of_its_own_arguments_alone(key: str, severity: str) -> None:
    """Those of transformers are refused whatever a copy declares, and whatever else in the repository is called so."""
    config = f"model_name_or_path: a/b\nstage: sft\ndo_train: true\nfinetuning_type: full\n{key}: often\n"
    own = "@dataclass\nclass FinetuningArguments:\n    finetuning_type: str = 'lora'\n    pref_loss: str = 'sigmoid'\n"
    other = "@dataclass\nclass Own:\n    eval_strategy: str = 'no'\n"
    files = {"src/llamafactory/hparams/finetuning_args.py": own, "own.py": other, "sft.yaml": config}
    workspace = in_memory(files)
    found = llamafactory.parse(workspace.documents("sft.yaml")[0], workspace.context()).issues
    assert [issue.severity for issue in found if issue.pointer == (key,)] == [severity]


WITH_COMMENTS = '{"train_batch_size": 8, // of all GPUs\n "zero_optimization": {"stage": 2,}\n}\n'


@pytest.mark.parametrize(("source", "refused"), [(OWN_LOOP, False), (TRAINER, True), (OWN_LOOP + TRAINER, True)])
def test_deepspeed_itself_takes_comments_of_its_file(source: str, refused: bool) -> None:
    """deepspeed 0.18.5 runtime/config.py:658: hjson."""
    workspace = in_memory({"ds.json": WITH_COMMENTS, "train.py": source})
    (document,) = workspace.documents("ds.json")
    findings = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert ("SRC001" in [one.rule for one in findings]) == refused
