"""What the commands that launch a config say over it."""

from __future__ import annotations

import pytest

from memlint.formats.base import Launch
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from memlint.ruleset.under_commands import as_launched
from memlint.source import load

CONFIG = """model_name_or_path: Qwen/Qwen2.5-1.5B
torch_dtype: float16
load_in_4bit: true
use_peft: true
bf16: true
max_length: 1024
per_device_train_batch_size: 1
dataset_name: a/b
output_dir: out
"""
FSDP = """compute_environment: LOCAL_MACHINE
distributed_type: FSDP
num_processes: 8
mixed_precision: bf16
fsdp_config:
  fsdp_version: 1
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_state_dict_type: FULL_STATE_DICT
  fsdp_offload_params: false
"""
START = "accelerate launch --config_file fsdp.yaml train.py configs/sft.yaml"
PROGRAM = """parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
script, training, model = parser.parse_args_and_config()
SFTTrainer(model.model_name_or_path, args=training, peft_config=get_peft_config(model)).train()
"""


@pytest.mark.parametrize(
    ("commands", "is_said"),
    [
        ((START,), True),
        ((f"{START} --output_dir other",), True),
        ((f"{START} --bnb_4bit_quant_storage bfloat16",), False),
        ((f"{START} --bnb_4bit_quant_storage=bfloat16", START), True),
        ((f"{START} --bnb_4bit_quant_storage bfloat16", f"{START} --output_dir other"), True),
    ],
)
def test_what_no_command_brings_about_is_not_said_of_the_config(commands: tuple[str, ...], is_said: bool) -> None:
    pages = {f"run{number}.sh": command for number, command in enumerate(commands)}
    workspace = in_memory({"configs/sft.yaml": CONFIG, "fsdp.yaml": FSDP, "train.py": PROGRAM, **pages})
    document = workspace.documents("configs/sft.yaml")[0]
    found = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert ("FSD012" in {one.rule for one in found}) is is_said


def test_the_config_under_each_command() -> None:
    document = load(b"a: 1\nb: 2\n", "a.yaml")[0]
    launches = [Launch(options=(("a", 3),)), Launch(options=(("a", 3),)), Launch(options=(("c", True),))]
    assert [one.value for one in as_launched(document, launches)] == [{"a": 3, "b": 2}, {"a": 1, "b": 2, "c": True}]
    assert as_launched(document, [*launches, Launch(options=(("b", 2),))]) == ()
    assert as_launched(document, [Launch(options=(("a", number),)) for number in range(3, 40)]) == ()


def test_a_rule_writes_a_key_as_the_command_spells_its_keys() -> None:
    """OpenRLHF's flags have dots in their names, and are no sections."""
    command = (
        "deepspeed --module openrlhf.cli.train_sft --model.model_name_or_path meta-llama/Meta-Llama-3-8B "
        "--data.dataset d --data.max_len 2048 --ds.zero_stage 2 --data.multiturn\n"
    )
    workspace = in_memory({"run.sh": command})
    (document,) = workspace.documents("run.sh")
    findings = Engine(shipped()).analyse(document, workspace.context()).findings
    (found,) = [one for one in findings if one.rule == "ORL011"]
    assert [edit.pointer[-1] for edit in found.fixes[0].edits] == ["data.apply_chat_template"]
