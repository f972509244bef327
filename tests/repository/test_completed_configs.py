"""A file of training arguments whose script makes the adapter: the script and the file are one run."""

from __future__ import annotations

import pytest

import memlint

CONFIG = """\
model_id: meta-llama/Meta-Llama-3-70B
max_seq_length: 3072
output_dir: out
learning_rate: 0.0002
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
optim: adamw_torch
bf16: true
gradient_checkpointing: true
fsdp: "full_shard auto_wrap offload"
fsdp_config: {backward_prefetch: backward_pre, use_orig_params: "false"}
"""
# After philschmid's run_fsdp_qlora.py, which runs on 4 cards of 24 GB: "22 GB/GPU with a sequence length of 3072".
SCRIPT = """\
from dataclasses import dataclass, field
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments
from trl import SFTTrainer, TrlParser

@dataclass
class ScriptArguments:
    model_id: str = field(default=None)
    max_seq_length: int = field(default=512)

parser = TrlParser((ScriptArguments, TrainingArguments))
script_args, training_args = parser.parse_args_and_config()
bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                          bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_quant_storage=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained(script_args.model_id, quantization_config=bits, torch_dtype=torch.bfloat16)
adapter = LoraConfig(lora_alpha=8, r=16, target_modules="all-linear", task_type="CAUSAL_LM")
trainer = SFTTrainer(model=model, args=training_args, train_dataset=data, dataset_text_field="text", packing=True,
                     peft_config=adapter, max_seq_length=script_args.max_seq_length)
trainer.train()
"""
LAUNCH = "ACCELERATE_USE_FSDP=1 torchrun --nproc_per_node=4 train.py --config qlora.yaml\n"
FILES = {"qlora.yaml": CONFIG, "train.py": SCRIPT, "run.sh": LAUNCH}


@pytest.mark.parametrize("name", ["qlora.yaml", "run.sh"])
def test_the_adapter_of_the_script_counts(name: str) -> None:
    found = memlint.estimate(FILES[name], path=name, files=FILES, gpu="RTX4090", gpus=4)
    run = found.run
    assert (run.method.kind, run.method.rank, run.model.quantization.bits) == ("lora", 16, 4)
    assert (run.sequence.length, run.parallelism.engine) == (3072, "fsdp")
    assert found.device_low_bytes is not None
    assert found.device_high_bytes is not None
    assert found.device_low_bytes < 22 * 2**30 < found.device_high_bytes


def test_a_file_that_names_an_adapter_is_its_own_run() -> None:
    config = CONFIG + "use_peft: true\nlora_r: 64\n"
    run = memlint.estimate(config, path="qlora.yaml", files={**FILES, "qlora.yaml": config}, gpu="RTX4090", gpus=4).run
    assert run.method.rank == 64
