"""What a Trainer or TRL file probably meant."""

from __future__ import annotations

import pytest
import yaml

from memlint.formats.base import Issue
from memlint.formats.trainer.format import parse, skips_rule
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

TRAINER = {
    "model_name_or_path": "Qwen/Qwen2.5-1.5B",
    "output_dir": "out",
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "learning_rate": 1.0e-5,
    "num_train_epochs": 1,
    "bf16": True,
}
TRL = {**TRAINER, "use_peft": True, "lora_r": 16, "dataset_name": "trl-lib/Capybara", "max_length": 1024}


def issues(
    content: dict[str, object], python: str = "", versions: dict[str, tuple[int, ...]] | None = None
) -> list[Issue]:
    workspace = in_memory({"train.yaml": yaml.safe_dump(content), **({"train.py": python} if python else {})})
    (document,) = workspace.documents("train.yaml")
    return list(parse(document, workspace.context(versions=versions or {})).issues)


def renamed(content: dict[str, object], old: str, new: str) -> dict[str, object]:
    return {new if key == old else key: value for key, value in content.items()}


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("per_device_train_batch_size", "micro_batch_size"),
        ("learning_rate", "lr"),
        ("per_device_train_batch_size", "per-device_train_batch_size"),
    ],
)
def test_anothers_key_is_named_with_the_one_that_was_meant(key: str, other: str) -> None:
    (found,) = issues(renamed(TRAINER, key, other))
    assert (found.code, found.suggestion, found.pointer) == ("unknown-key", key, (other,))


@pytest.mark.parametrize(("key", "other"), [("max_length", "max_len"), ("lora_r", "lora_rank"), ("seed", "saed")])
def test_a_key_of_trl_counts_where_the_file_is_trls(key: str, other: str) -> None:
    assert [issue.suggestion for issue in issues(renamed({**TRL, "seed": 1}, key, other))] == [key]


def test_nothing_is_said_where_the_key_that_was_meant_is_there() -> None:
    assert not issues({**TRAINER, "lr": 1.0e-5})


def test_nothing_is_said_of_a_file_with_many_keys_of_a_script() -> None:
    own = {f"field_of_the_script_{number}": number for number in range(4)}
    assert not issues({**renamed(TRAINER, "learning_rate", "lr"), **own})


@pytest.mark.parametrize("value", ["flash_attn_2", "fa2", "flash-attention-3", "Sdpa"])
def test_an_attention_that_transformers_does_not_know(value: str) -> None:
    (found,) = issues({**TRL, "attn_implementation": value})
    assert found.code == "bad-value"
    assert found.suggestion in ("flash_attention_2", "flash_attention_3", "sdpa")


@pytest.mark.parametrize(
    "value", ["sdpa", "flash_attention_2", "kernels-community/flash-attn3", "paged|sdpa", "${ATTN}"]
)
def test_an_attention_that_may_well_run(value: str) -> None:
    assert not issues({**TRL, "attn_implementation": value})


def test_a_dtype_is_a_name_of_torch_for_trl_and_a_scripts_own_word_elsewhere() -> None:
    (found,) = issues({**TRL, "dtype": "bf16"})
    assert (found.code, found.severity, found.suggestion) == ("bad-value", "error", "bfloat16")
    assert not issues({**TRAINER, "dtype": "bf16"})


@pytest.mark.parametrize(("key", "value"), [("seed", "many"), ("max_steps", "auto"), ("use_peft", "maybe")])
def test_text_that_spells_nothing_the_parser_takes(key: str, value: str) -> None:
    (found,) = [issue for issue in issues({**TRL, key: value}) if issue.pointer == (key,)]
    assert found.code == "wrong-type"
    assert "TrlParser refuses it" in found.message


@pytest.mark.parametrize("file", ["train.yaml", "other.yaml"])
def test_text_for_a_number_that_hfargumentparser_passes_on(file: str) -> None:
    """A program of alignment-handbook's kind reads TRL's arguments with a parser of transformers; so it does where it
    names no file, if the repository has no other parser."""
    python = f'H4ArgumentParser((DPOConfig,)).parse_yaml_file("{file}")\n'
    (found,) = [one for one in issues({**TRL, "max_steps": "auto"}, python) if one.pointer == ("max_steps",)]
    assert "HfArgumentParser passes it on" in found.message


SCRIPT = """
import yaml
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
cfg = yaml.safe_load(open("sft.yaml"))
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
args = SFTConfig(output_dir="o", per_device_train_batch_size=cfg["batch"], do_train=cfg["train"],
                 warmup_ratio=cfg["warmup"], max_length=512)
SFTTrainer(model=model, args=args, train_dataset=data).train()
"""


def test_a_script_that_passes_values_on_is_named_and_its_file_keeps_its_keys() -> None:
    workspace = in_memory({"sft.py": SCRIPT, "sft.yaml": "batch: 2\ntrain: 'true,'\nwarmup: 0.1\n"})
    found = [
        issue for document in workspace.documents("sft.py") for issue in parse(document, workspace.context()).issues
    ]
    said = {issue.code: issue for issue in found}
    assert said["renamed-key"].message.endswith("where sft.py passes this value on")
    assert said["renamed-key"].edit is None
    assert said["wrong-type"].message.endswith("any text counts as true")


def test_rules_about_arguments_together_wait_for_a_file_that_is_not_here() -> None:
    script = """from trl import SFTConfig, SFTTrainer, TrlParser
(args,) = TrlParser((SFTConfig,)).parse_args_and_config()
SFTTrainer(args=args).train()
"""
    command = "accelerate launch sft.py --config gone.yaml --save_strategy best --learning_rate 1e-4 --output_dir o\n"
    workspace = in_memory({"sft.py": script, "go.sh": command})
    (document,) = workspace.documents("go.sh")
    assert skips_rule("TRN009", document, workspace.context())
    assert not skips_rule("MEM001", document, workspace.context())


def test_a_truth_value_counts_as_a_number_in_python() -> None:
    (found,) = issues({**TRAINER, "save_steps": True})
    assert (found.code, found.severity) == ("wrong-type", "warning")
    script = SCRIPT.replace('do_train=cfg["train"]', "save_steps=True")
    workspace = in_memory({"sft.py": script, "sft.yaml": "batch: 2\nwarmup: 0.1\n"})
    parsed = [parse(document, workspace.context()) for document in workspace.documents("sft.py")]
    assert not [issue for one in parsed for issue in one.issues if issue.code == "wrong-type"]


def test_a_field_of_the_repositorys_own_class_has_its_own_type() -> None:
    python = "from dataclasses import dataclass\n@dataclass\nclass Mine:\n    debug: bool = False\n"
    assert [issue.code for issue in issues({**TRAINER, "debug": False})] == ["wrong-type"]
    assert not issues({**TRAINER, "debug": False}, python)


@pytest.mark.parametrize(
    ("parser", "told"),
    [
        ("", "TRL's scripts drop it"),
        ("TrlParser", "TrlParser refuses it, and before trl 0.19 drops it"),
        ("H4ArgumentParser", "HfArgumentParser refuses it"),
    ],
)
def test_what_becomes_of_an_unknown_key_is_what_its_parser_does(parser: str, told: str) -> None:
    python = f"parser = {parser}((SFTConfig,))\nparser.parse('train.yaml')\n" if parser else ""
    (found,) = [one for one in issues({**TRL, "gradient_clipping": 1.0}, python) if one.code == "unknown-key"]
    assert found.message == f"unknown key `gradient_clipping`: did you mean `max_grad_norm`? {told}"


def test_of_a_record_of_all_arguments_none_is_without_effect() -> None:
    record = {"logging_nan_inf_filter": True, "past_index": -1, "tpu_metrics_debug": False, "fp16_opt_level": "O1"}
    for more, told in (({}, {"EVA004"}), (record, set())):
        workspace = in_memory({"train.yaml": yaml.safe_dump({**TRAINER, "eval_steps": 500, **more})})
        found = Engine(tuple(shipped())).analyse(workspace.documents("train.yaml")[0], workspace.context()).findings
        assert {one.rule for one in found} & {"EVA004"} == told


def test_text_that_the_program_makes_a_number_of() -> None:
    python = "args = HfArgumentParser(Mine).parse_yaml_file('train.yaml')\nrate = {}(args.learning_rate)\n"
    content = {**TRAINER, "learning_rate": "1e-5"}
    for convert, codes in (("float", []), ("print", ["string-number"])):
        assert [issue.code for issue in issues(content, python.format(convert))] == codes


def test_the_release_of_trl_that_drops_torch_dtype_loads_float32() -> None:
    content = {**renamed(TRL, "lora_r", "lora_alpha"), "torch_dtype": "bfloat16"}
    workspace = in_memory({"train.yaml": yaml.safe_dump(content)})
    (document,) = workspace.documents("train.yaml")
    new = parse(document, workspace.context(versions={"trl": (1, 16)}))
    old = parse(document, workspace.context(versions={"trl": (0, 27)}))
    assert [run.model.weights_dtype for run in (*new.runs, *old.runs)] == ["float32", "bfloat16"]
    assert [issue.code for issue in new.issues] == ["renamed-key"]
    assert not old.issues


@pytest.mark.parametrize(
    ("more", "key", "severity", "meant"),
    [
        ({"report_to": ["wanb"]}, "report_to", "error", ""),
        ({"report_to": "my_logger"}, "report_to", "warning", ""),
        ({"packing": True, "packing_strategy": "bdf"}, "packing_strategy", "error", "bfd"),
        ({"num_generations": 8, "loss_type": "dr-grpo"}, "loss_type", "error", "dr_grpo"),
        ({"beta": 0.1, "loss_type": ["sigmoid", "hinged"]}, "loss_type", "error", ""),
        ({"packing": True, "use_peft": True, "lora_task_type": "CAUSAL"}, "lora_task_type", "warning", ""),
        ({"packing": True, "load_in_4bit": True, "bnb_4bit_quant_type": "nf8"}, "bnb_4bit_quant_type", "error", "nf4"),
    ],
)
def test_a_word_that_a_trainer_compares_with_names(
    more: dict[str, object], key: str, severity: str, meant: str
) -> None:
    (found,) = [issue for issue in issues({**TRL, **more}) if issue.pointer == (key,)]
    assert (found.code, found.severity, found.suggestion) == ("bad-value", severity, meant)


def test_nothing_reads_the_kind_of_4_bits_where_none_are_loaded() -> None:
    assert not issues({**TRL, "packing": True, "bnb_4bit_quant_type": "nf8"})


def test_a_class_of_the_repository_may_take_other_words() -> None:
    declared = "@dataclass\nclass Config(SFTConfig):\n    loss_type: str = 'nll'\n"
    assert not issues({**TRL, "loss_type": "focal"}, declared)
    assert issues({**TRL, "loss_type": "focal"})


@pytest.mark.parametrize(
    ("program", "is_said"),
    [
        ("", True),
        (
            "from trl import GRPOTrainer, ModelConfig, TrlParser\nTrlParser((ModelConfig,)).parse_args_and_config()\n",
            False,
        ),
        (
            "from alignment import H4ArgumentParser, ModelArguments\nH4ArgumentParser((ModelArguments,)).parse()\n",
            False,
        ),
    ],
)
def test_a_program_decides_itself_whether_its_model_is_quantised(program: str, is_said: bool) -> None:
    content = {**TRL, "use_peft": False, "load_in_4bit": True}
    files = {"train.yaml": yaml.safe_dump(content), **({"train.py": program} if program else {})}
    workspace = in_memory(files)
    found = Engine(tuple(shipped())).analyse(workspace.documents("train.yaml")[0], workspace.context()).findings
    assert ("PEF020" in {one.rule for one in found}) is is_said
