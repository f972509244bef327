"""Engines and optimizers that a training loop sets up by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memlint.api.calls import check, estimate
from memlint.api.results import RunEstimate
from memlint.run import UNKNOWN, Run
from tests.formats.trainer.test_python_runs import keys

LOOP = """\
import functools, torch
from torch.distributed.fsdp import CPUOffload, CPUOffloadPolicy, FullyShardedDataParallel as FSDP, MixedPrecision
from torch.distributed.fsdp import MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", torch_dtype=torch.float32)
{engine}
optimizer = {optimizer}
def collate(rows):
    return tokenizer(rows, truncation=True, max_length=1024, padding="max_length", return_tensors="pt")
for batch in DataLoader([], batch_size=4, shuffle=True, collate_fn=collate):
    loss = model(**batch, labels=batch["input_ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ADAMW = "torch.optim.AdamW(model.parameters(), lr=1e-5)"
POLICY = "policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=set([Qwen2DecoderLayer]))\n"
HALF = "half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)\n"
FSDP1 = POLICY + HALF + "model = FSDP(model, auto_wrap_policy=policy, mixed_precision=half, device_id=0{more})"
FSDP2 = (
    "half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)\n"
    "for layer in model.model.layers:\n    fully_shard(layer, mp_policy=half)\nfully_shard(model, mp_policy=half{more})"
)


def loop(engine: str = "", optimizer: str = ADAMW) -> str:
    return LOOP.format(engine=engine, optimizer=optimizer)


def estimated(code: str, gpus: int | None = 8, gpu: str = "A100-80GB") -> RunEstimate:
    return estimate(code, path="train.py", gpu=gpu, gpus=gpus, isolated=True)


def run_of(engine: str, optimizer: str = ADAMW, gpus: int | None = 8) -> Run:
    return estimated(loop(engine, optimizer), gpus).run


@pytest.mark.parametrize(
    ("engine", "changes"),
    [
        (FSDP1, {}),
        (FSDP1.replace("{more}", ", cpu_offload=CPUOffload(offload_params=True)"), {"cpu_offload": True}),
        (
            FSDP1.replace("{more}", ", sharding_strategy=ShardingStrategy.SHARD_GRAD_OP"),
            {"strategy": "SHARD_GRAD_OP", "reshard_after_forward": False},
        ),
        (FSDP1.replace("auto_wrap_policy=policy, ", ""), {"wrap": "none"}),
        (
            FSDP1.replace(POLICY, "policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1000)\n"),
            {"wrap": "size", "min_num_params": 1000},
        ),
        (FSDP2, {"version": 2}),
        (FSDP2.replace("{more}", ", offload_policy=CPUOffloadPolicy()"), {"version": 2, "cpu_offload": True}),
        (FSDP2.replace("layer, mp", "layer, reshard_after_forward=False, mp"), {"strategy": "SHARD_GRAD_OP"}),
    ],
)
def test_fsdp_of_a_loop(engine: str, changes: dict[str, Any]) -> None:
    found = run_of(engine.replace("{more}", ""))
    fsdp = found.parallelism.fsdp
    assert found.parallelism.engine == "fsdp"
    assert (fsdp.param_dtype, fsdp.reduce_dtype) == ("bfloat16", "float32")
    assert (found.precision.compute, found.precision.autocast) == ("bfloat16", False)
    assert (fsdp.upcasts_trainable, fsdp.reduces_each_backward, fsdp.root_holds_ends) == (False, True, True)
    expected = {"version": 1, "wrap": "transformer", **changes}
    assert {name: getattr(fsdp, name) for name in expected} == {**expected, "version": fsdp.version}
    assert fsdp.version == (2 if "fully_shard(" in engine else 1)


def test_half_is_another_name_of_float16() -> None:
    engine = FSDP1.replace("param_dtype=torch.bfloat16", "param_dtype=torch.half").replace("{more}", "")
    assert run_of(engine).parallelism.fsdp.param_dtype == "float16"


@pytest.mark.parametrize(
    "engine",
    [
        FSDP1.replace("{more}", ", ignored_modules=[model.lm_head]"),
        FSDP1.replace("policy = ", "policy = my_policy  # "),
        FSDP1.replace("{more}", ", **options"),
        FSDP2.replace("for layer in model.model.layers:", "for layer in parts(model):"),
        FSDP2.replace("{more}", ", mesh=mesh"),
        "if input() == 'fsdp':\n    fully_shard(model)",
    ],
)
def test_fsdp_that_is_not_seen(engine: str) -> None:
    found = run_of(engine.replace("{more}", ""))
    assert found.parallelism.engine is UNKNOWN
    assert "FSDP by itself, and" in found.origins["parallelism.engine"].detail


def test_what_fsdp_computes_in_is_not_known_where_it_is_not_seen() -> None:
    hidden = run_of(FSDP1.replace("policy = ", "policy = my_policy  # ").replace("{more}", ""))
    assert hidden.precision.compute is UNKNOWN


def test_a_reference_that_goes_through_fsdp_too_is_another_model() -> None:
    reference = 'reference = FSDP(AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"))\n'
    assert run_of(reference + FSDP1.replace("{more}", "")).parallelism.fsdp.wrap == "transformer"
    assert run_of(FSDP1.replace("{more}", "") + "\nmodel = FSDP(model)").parallelism.engine is UNKNOWN


@pytest.mark.parametrize("gpus", [None, 4])
def test_copies_on_each_gpu_keep_buckets(gpus: int | None) -> None:
    """torch 2.13 distributed/csrc/reducer.cpp: buckets as large as all gradients, with however many processes."""
    copies, alone = estimated(loop("model = DDP(model)"), gpus), estimated(loop(), gpus)
    assert (copies.run.parallelism.engine, alone.run.parallelism.engine) == ("ddp", "single")
    assert (copies.allocated_bytes or 0) - (alone.allocated_bytes or 0) == pytest.approx(4 * 1.5437e9, rel=0.01)


def test_no_launcher_shards_a_loop_without_a_library() -> None:
    assert estimated(loop(), gpu="A100-40GB").verdict == "out_of_memory"
    with_accelerate = "from accelerate import Accelerator\nmodel = Accelerator(mixed_precision='no').prepare(model)"
    assert estimated(loop(with_accelerate), gpu="A100-40GB").verdict == "unknown"


def test_an_option_that_no_command_shows_may_shard_a_loop() -> None:
    """llama-recipes 0.0.1 llama_finetuning.py: `fire.Fire(main)` sets `enable_fsdp` of its configuration."""
    is_off = "class Options:\n    enable_fsdp = False\nif Options.enable_fsdp:\n    model = FSDP(model)"
    assert estimated(loop(is_off), gpu="A100-40GB").verdict == "unknown"


@pytest.mark.parametrize(
    ("imports", "optimizer", "name", "options"),
    [
        ("", "torch.optim.AdamW(model.parameters())", "adamw_torch", None),
        ("", "torch.optim.AdamW(model.parameters(), fused=True)", "adamw_torch_fused", None),
        ("", "torch.optim.AdamW(model.parameters(), amsgrad=True)", "adamw_torch_amsgrad", None),
        ("", "torch.optim.SGD(model.parameters(), lr=1, momentum=0.9)", "sgd", "momentum=0.9"),
        ("", "torch.optim.SGD(model.parameters(), lr=1)", "sgd", None),
        ("import bitsandbytes as bnb", "bnb.optim.AdamW(model.parameters())", "adamw_bnb_32bit", None),
        ("import bitsandbytes as bnb", "bnb.optim.AdamW8bit(model.parameters())", "adamw_8bit", None),
        ("import bitsandbytes as bnb", "bnb.optim.AdamW(model.parameters(), optim_bits=8)", "?", None),
        ("import bitsandbytes as bnb", "bnb.optim.PagedLion8bit(model.parameters())", "paged_lion_8bit", None),
        ("from torchao.optim import AdamW8bit", "AdamW8bit(model.parameters())", "adamw_torch_8bit", None),
        ("from transformers import AdamW", "AdamW(model.parameters())", "adamw_hf", None),
        ("from transformers import Adafactor", "Adafactor(model.parameters())", "adafactor", None),
        ("from transformers import Adafactor", "Adafactor(model.parameters(), beta1=0.9)", "?", None),
        ("from lion_pytorch import Lion", "Lion(model.parameters())", "lion_pytorch", None),
        ("from own import Lion", "Lion(model.parameters())", "?", None),
        (
            "from schedulefree import AdamWScheduleFree",
            "AdamWScheduleFree(model.parameters())",
            "schedule_free_adamw",
            None,
        ),
    ],
)
def test_the_optimizer_of_a_loop(imports: str, optimizer: str, name: str, options: str | None) -> None:
    found = keys(loop(imports, optimizer))
    assert (found["optim"], found.get("optim_args")) == (name, options)


def test_only_the_trainer_keeps_states_of_embeddings_in_32_bits() -> None:
    """bitsandbytes 0.50 optim/optimizer.py: 8 bits for every parameter that GlobalOptimManager has no word for."""
    found = run_of("import bitsandbytes as bnb", "bnb.optim.AdamW8bit(model.parameters())", gpus=1)
    assert found.optimizer.embeddings_in_32_bits is False


DEEPSPEED = """\
import deepspeed, torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
for batch in DataLoader([], batch_size=engine.train_micro_batch_size_per_gpu()):
    engine.backward(engine(**tokenizer(batch, max_length=512, truncation=True)).loss)
    engine.step()
"""


def test_a_loop_takes_from_deepspeeds_file_what_the_engine_does() -> None:
    batch = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    engine = {"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW"}, "bf16": {"enabled": True}}
    files = {"ds.json": json.dumps({**batch, **engine})}
    found = keys(DEEPSPEED, files)
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (4, 2)
    assert (found["optim"], found["bf16"], found["deepspeed"]) == ("adamw_torch", True, "ds.json")
    whole = estimate(DEEPSPEED, path="train.py", files=files, gpu="A100-80GB", gpus=4, isolated=True)
    assert whole.path == "train.py"
    assert (whole.verdict, whole.run.parallelism.zero.stage, whole.run.batch.micro_batch_size) == ("fits", 2, 4)


SIZES = {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
BY_FLAG = DEEPSPEED.replace(
    "import deepspeed, torch\n",
    "import argparse, deepspeed, torch\n"
    "args = deepspeed.add_config_arguments(argparse.ArgumentParser()).parse_args()\n",
).replace('config="ds.json"', "args=args")
IN_CODE = DEEPSPEED.replace('"ds.json"', repr(SIZES))
FLAGS = " --deepspeed --deepspeed_config ds.json"


@pytest.mark.parametrize(
    ("code", "flags", "sizes", "gpus", "message"),
    [
        (DEEPSPEED, "", SIZES, 8, "not train_micro_batch_size_per_gpu 2 * gradient_accumulation_steps 4 * 8 GPUs"),
        (BY_FLAG, FLAGS, SIZES, 8, "not train_micro_batch_size_per_gpu 2 * gradient_accumulation_steps 4 * 8 GPUs"),
        (IN_CODE, "", {}, 8, "not train_micro_batch_size_per_gpu 2 * gradient_accumulation_steps 4 * 8 GPUs"),
        (DEEPSPEED, "", {"train_batch_size": 12}, 8, "no multiple of 8 GPUs"),
        (DEEPSPEED, "", {"train_batch_size": 12}, 4, ""),
        (DEEPSPEED, "", SIZES, 4, ""),
        (DEEPSPEED, "", {**SIZES, "gradient_accumulation_steps": "auto"}, 8, ""),
        (DEEPSPEED.replace("config=", "mpu=mpu, config="), "", SIZES, 8, "unless the script divides each copy"),
        (DEEPSPEED.replace("config=", "mpu=mpu, config="), "", {"train_batch_size": 12}, 8, ""),
        (IN_CODE.replace("'train_batch_size': 32", "'train_batch_size': 8 * world"), "", {}, 8, ""),
    ],
)
def test_batch_sizes_that_deepspeed_refuses_in_a_loop(
    code: str, flags: str, sizes: dict[str, Any], gpus: int, message: str
) -> None:
    """deepspeed 0.19.8 runtime/config.py:602, _batch_assertion."""
    command = f"deepspeed --num_gpus {gpus} train.py{flags}\n"
    files = {"ds.json": json.dumps(sizes), "run.sh": command, "train.py": code}
    said = check(files["run.sh"], path="run.sh", files=files, isolated=True).findings
    found = [one for one in said if one.rule == "CFG008"]
    assert len(found) == bool(message)
    assert all(message in one.message for one in found)
    assert {one.severity for one in found} <= {"warning" if "unless" in message else "error"}


def test_a_launcher_of_an_unknown_number_of_gpus_shows_no_wrong_product() -> None:
    files = {"ds.json": json.dumps(SIZES), "run.sh": "deepspeed train.py\n", "train.py": DEEPSPEED}
    found = check(files["run.sh"], path="run.sh", files=files, isolated=True).findings
    assert [one.rule for one in found if one.rule.startswith("CFG")] == []


@pytest.mark.parametrize(
    ("before_it", "stage", "divides"),
    [
        ("", 3, False),
        ("keep = HfDeepSpeedConfig('ds.json')\n", 3, True),
        ("", 2, True),  # nothing divides weights under stage 2
    ],
)
def test_a_loop_that_loads_before_deepspeed_is_known_has_the_whole_model_first(
    before_it: str, stage: int, divides: bool
) -> None:
    batch = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "bf16": {"enabled": True}}
    files = {"ds.json": json.dumps({**batch, "zero_optimization": {"stage": stage}})}
    code = DEEPSPEED.replace("model = ", f"{before_it}model = ", 1).replace(
        "import deepspeed, torch\n",
        "import deepspeed, torch\nfrom transformers.integrations import HfDeepSpeedConfig\n",
    )
    found = estimate(code, path="train.py", files=files, gpu="A100-80GB", gpus=4, isolated=True)
    assert found.run.parallelism.zero.stage == stage
    assert found.run.parallelism.zero.shards_on_load is divides


@pytest.mark.parametrize(
    ("model", "length"),
    [("bert-base-cased", 512), ("FacebookAI/roberta-base", 512), ("gpt2", 1024), ("Qwen/Qwen2.5-0.5B", UNKNOWN)],
)
def test_positions_bound_what_nothing_cuts(model: str, length: object) -> None:
    """A table of positions has a row for each: the models raise for a longer sequence."""
    arguments = {"model_name_or_path": model, "per_device_train_batch_size": 8, "bf16": True, "output_dir": "out"}
    assert estimate(arguments, path="train.yaml", isolated=True).run.sequence.length == length


METRICS = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
def accuracy(found): return {}
model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", per_device_train_batch_size=4, eval_strategy="steps"%s)
Trainer(model=model, args=args, train_dataset=[], eval_dataset=[]%s).train()
"""


@pytest.mark.parametrize(
    ("arguments", "trainer", "verdict"),
    [
        ("", ", compute_metrics=accuracy", "unknown"),
        (
            "",
            ", compute_metrics=accuracy, preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)",
            "fits",
        ),
        ("", ", compute_metrics=None", "fits"),
        (", eval_accumulation_steps=4", ", compute_metrics=accuracy", "fits"),
        (", batch_eval_metrics=True", ", compute_metrics=accuracy", "fits"),
    ],
)
def test_metrics_keep_the_logits_of_all_samples(arguments: str, trainer: str, verdict: str) -> None:
    """transformers 5.23 trainer.py, evaluation_loop: a data set of 1,000 x 1024 tokens is 206 GB of gpt2's logits."""
    found = estimate(METRICS % (arguments, trainer), path="train.py", gpu="A100-80GB", gpus=1, isolated=True)
    assert found.verdict == verdict
    reasons = [one.reason for one in found.report.estimate.unknown]
    assert all("at least" in reason and "with one batch of them" in reason for reason in reasons)


def test_sequences_that_a_library_divides_over_gpus_are_not_estimated_whole() -> None:
    ring = "from ring_flash_attn import substitute_hf_flash_attn\nsubstitute_hf_flash_attn(group, 4)"
    found = estimated(loop(ring))
    assert found.verdict == "unknown" and found.unknown is not None
    assert "divides its sequences over GPUs (`ring_flash_attn.substitute_hf_flash_attn`)" in str(found.unknown)


PLUGIN = """\
from accelerate import Accelerator, FullyShardedDataParallelPlugin
model, optimizer = Accelerator(
    fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2{arguments}), mixed_precision="bf16"
).prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-5))
"""
OFFLOADING = "accelerate launch --num_processes 4 --use_fsdp --fsdp_offload_params true"


@pytest.mark.parametrize(
    ("arguments", "command", "offloads", "wrap"),
    [
        ("", OFFLOADING, True, "none"),
        (", cpu_offload=False", OFFLOADING, False, "none"),
        (", auto_wrap_policy='transformer_based_wrap'", "torchrun --nproc_per_node 4", False, "transformer"),
    ],
)
def test_a_plug_in_of_accelerate_stands_over_its_launcher(
    arguments: str, command: str, offloads: bool, wrap: str
) -> None:
    code = loop(PLUGIN.format(arguments=arguments)).replace("loss.backward()", "accelerator.backward(loss)")
    found = estimate(f"{command} train.py\n", path="run.sh", files={"train.py": code}, gpu="A100-80GB", isolated=True)
    own = found.run.parallelism.fsdp
    assert (found.run.parallelism.engine, own.version, own.cpu_offload) == ("fsdp", 2, offloads)
    assert own.wrap == wrap


def test_a_text_encoder_of_a_diffusion_model_is_not_what_trains() -> None:
    assert check(loop(), path="train.py", isolated=True).runs
    assert not check(f"import diffusers\n{loop()}", path="train.py", isolated=True).runs


def test_adapters_under_an_engine() -> None:
    engine = (
        "import deepspeed\nfrom peft import LoraConfig, get_peft_model\n"
        "model = get_peft_model(model, LoraConfig(r=4))\n"
        "model, _, _, _ = deepspeed.initialize(model=model, config={'zero_optimization': {'stage': 3}})"
    )
    found = run_of(engine)
    assert (found.method.kind, found.method.rank, found.parallelism.zero.stage) == ("lora", 4, 3)


def test_one_of_several_decoder_layers_is_wrapped() -> None:
    chosen = "from transformers.models.llama.modeling_llama import LlamaDecoderLayer\n"
    chosen += "if kind == 'a':\n    layer = Qwen2DecoderLayer\nelif kind == 'b':\n    layer = LlamaDecoderLayer\n"
    policy = chosen + POLICY.replace("set([Qwen2DecoderLayer])", "{layer}")
    engine = FSDP1.replace(POLICY, policy).replace("{more}", "")
    assert run_of(engine).parallelism.fsdp.wrap == "transformer"


@pytest.mark.parametrize("test", ["step % 4 != 0", "(step + 1) % 4"])
def test_a_step_behind_rounds_that_are_passed_over(test: str) -> None:
    code = loop().replace("for batch in", "for step, batch in enumerate(").replace("collate):", "collate)):")
    code = code.replace("collate_fn=collate)", "collate_fn=collate)").replace(
        "    optimizer.step()", f"    if {test}:\n        continue\n    optimizer.step()"
    )
    assert estimated(code).run.batch.gradient_accumulation_steps == 4


def test_a_data_set_that_makes_batches() -> None:
    rows = "class Rows(torch.utils.data.IterableDataset):\n    def __init__(self, batch_size):\n"
    rows += "        self.batch_size = batch_size\n"
    code = loop(rows).replace("DataLoader([], batch_size=4, shuffle=True,", "DataLoader(Rows(16), batch_size=None,")
    assert estimated(code).run.batch.micro_batch_size == 16


def test_the_engines_own_optimizer_gives_way() -> None:
    engine = "import deepspeed, json\nzero = {'optimizer': {'type': 'SGD'}, 'zero_optimization': {'stage': 2}}"
    assert run_of(engine).optimizer.name == "adamw_torch"


def test_a_changed_copy_of_a_model() -> None:
    own = "from transformers import PreTrainedModel\nclass LlamaForCausalLM(PreTrainedModel):\n"
    own += "    def __init__(self, config):\n        super().__init__(config)\nmodel = LlamaForCausalLM(None)"
    found = run_of(own)
    assert (found.model.name, found.method.kind) == (UNKNOWN, UNKNOWN)
    assert found.batch.micro_batch_size == 4


EXTENDED = """\
import torch
from transformers import LlamaForCausalLM
from torch.utils.data import DataLoader

class {name}(LlamaForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.score = torch.nn.Linear(config.hidden_size, 1)

model = {name}.from_pretrained("meta-llama/Llama-2-7b-hf")
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(data, batch_size=4):
    model(**batch).loss.backward()
    optimizer.step()
"""


def test_a_loop_may_train_a_class_that_stands_on_a_language_model() -> None:
    found = estimated(EXTENDED.format(name="Scorer"), gpus=1)
    assert (found.run.model.name, found.run.batch.micro_batch_size) == ("meta-llama/Llama-2-7b-hf", 4)
    assert "loads `Scorer`, a class of the repository" in str(found.unknown)


@pytest.mark.parametrize(("module", "trains"), [("rewards.py", False), ("backbone.py", True)])
def test_a_model_that_gives_rewards_is_not_what_trains(module: str, trains: bool) -> None:
    loads = "from transformers import AutoModelForCausalLM\n"
    loads += 'def make():\n    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B").eval()\n'
    name = module.removesuffix(".py")
    code = f"import torch\nfrom {name} import make\nmodel = make()\noptimizer = torch.optim.AdamW(trainable)\n"
    code += "for batch in torch.utils.data.DataLoader([], batch_size=4):\n    loss = step(batch)\n    loss.backward()\n"
    code += "    optimizer.step()\nif __name__ == '__main__':\n    pass\n"
    found = check(code, path="train.py", files={module: loads}, gpu="RTX4090", gpus=1, isolated=True)
    assert bool(found.runs) == trains


IGNITE = (
    LOOP[: LOOP.index("for batch in")]
    + """\
from ignite.engine import Engine, Events
def update(engine, batch):
    loss = model(**batch, labels=batch["input_ids"]).loss / 8
    loss.backward()
    if engine.state.iteration % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
def measure(engine, batch):
    return model(**batch).logits
trainer, evaluator = Engine(update), Engine(measure)
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _: evaluator.run(DataLoader([], batch_size=64)))
{run}
"""
)


def test_ignites_engine_is_a_loop() -> None:
    code = IGNITE.replace("{run}", "trainer.run(DataLoader([], batch_size=4, shuffle=True, collate_fn=collate))")
    found = keys(code.format(engine="", optimizer=ADAMW))
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (4, 8)
    assert found["max_length"] == 1024


def test_an_engine_that_is_never_run_trains_nothing() -> None:
    with pytest.raises(ValueError, match="unpack"):
        keys(IGNITE.replace("{run}", "evaluator.run(DataLoader([], batch_size=4))").format(engine="", optimizer=ADAMW))


def test_branches_that_make_the_model_agree_in_some_of_it() -> None:
    loading = 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", torch_dtype=torch.float32)\n'
    other = loading.replace("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-3B").replace("float32", "float32, use_cache=False")
    code = loop().replace(loading, f"if input():\n    {loading}else:\n    {other}")
    found = keys(code)
    assert found["model_name_or_path"] == {"Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-3B"}
    assert (found["dtype"], found["per_device_train_batch_size"]) == ("float32", 4)
    same = loop().replace(loading, f"if input():\n    {loading}else:\n    {loading}")
    assert keys(same)["model_name_or_path"] == "Qwen/Qwen2.5-1.5B"


def test_a_branch_may_attach_an_adapter() -> None:
    adapted = (
        "from peft import LoraConfig, get_peft_model\nif input():\n    model = get_peft_model(model, LoraConfig())"
    )
    found = keys(loop(adapted))
    assert found["model_name_or_path"] == "Qwen/Qwen2.5-1.5B"
    assert found["use_peft"] == {"?", True}


@pytest.mark.parametrize(("given", "verdict"), [("", "out_of_memory"), (', device_map="auto"', "unknown")])
def test_a_loop_whose_device_map_spreads_the_layers_has_no_verdict_over_the_card(given: str, verdict: str) -> None:
    code = loop().replace("torch_dtype=torch.float32", f"torch_dtype=torch.float32{given}").replace("1.5B", "14B")
    assert estimated(code).verdict == verdict
