"""A tiny training on the CPU, under what a transformers Trainer or a trainer of TRL can run: predicted beside measured.

    python benchmarks/train/trainer_steps.py table    the table of docs/train.md, each kind in processes of its own
    python benchmarks/train/trainer_steps.py plain    one kind (KINDS); `torchrun --nproc-per-node 2` for ranks
    python benchmarks/train/trainer_steps.py cost     what the callback adds to a step

ZeRO needs deepspeed and a C++ compiler; sft, dpo, grpo and reward need trl and datasets.

What a GPU does otherwise than a CPU is set to the GPU's way:

- accelerate reads FSDP for accelerators alone, and makes DDP of CPU ranks whatever `fsdp` says (accelerate 1.15
  state.py:993-1013). The ranks are called another kind of device, which changes nothing else. FSDP1 has no such way:
  PyTorch wants a numbered device (torch 2.13 fsdp/_init_utils.py, _get_compute_device).
- TRL's fused head folds each tile of logits in one Triton kernel, which allocates nothing, and on a CPU in a dozen
  operators (trl 1.16 kernels/chunked_logprob.py). Functions that allocate nothing stand in for the kernels.

`cost` prints what the callback adds to a step where it reads counters, as it does on a GPU: the hooks and their Python,
with counters that cost nothing; and the share of a step of a 100 M model on this CPU. What PyTorch's own counters cost
is not in it.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, Trainer, TrainingArguments

import memlint.train
from memlint.train.meters import MeasuredPeak
from memlint.train.predict import Training
from memlint.train.record import FILE
from memlint.train.session import Session

SIZES = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 8}
SIZES |= {"num_key_value_heads": 4, "vocab_size": 8192, "max_position_embeddings": 512, "pad_token_id": 0}
LENGTH = 256
RANKED = ("ddp", "zero1", "zero2", "zero3", "fsdp2")
TRL = ("sft", "dpo", "grpo", "reward")
KINDS = ("plain", *RANKED, *TRL)
NEEDS = {**dict.fromkeys(TRL, "trl"), **dict.fromkeys(("zero1", "zero2", "zero3"), "deepspeed")}
PHASES = ("forward", "backward", "optimizer_step")
FSDP = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
FSDP |= {"cpu_ram_efficient_loading": False}
AUTO = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size", "gradient_clipping")
# DeepSpeed's default buckets would outweigh a tiny model.
BUCKETS = {"reduce_bucket_size": 1_000_000, "allgather_bucket_size": 1_000_000}
BUCKETS |= {"stage3_prefetch_bucket_size": 1_000_000, "stage3_param_persistence_threshold": 10_000}
ON_CPU: dict[str, Any] = {
    "per_device_train_batch_size": 2,
    "max_steps": 4,
    "report_to": [],
    "save_strategy": "no",
    "use_cpu": True,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
    "optim": "adamw_torch",
}
# A model of 100 M parameters, whose step the callback's cost is compared with.
REAL = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
REAL |= {"num_key_value_heads": 12, "vocab_size": 16000}
REAL_LENGTH = 256


class FreeCounters:
    """Counters that cost nothing to read."""

    device = "cuda"
    sees_loading = True

    def start(self, model: torch.nn.Module) -> None: ...

    def take(self) -> MeasuredPeak:
        return MeasuredPeak()

    def stop(self) -> None: ...


def small(sizes: dict[str, int] = SIZES, kind: Any = LlamaForCausalLM, **more: Any) -> Any:
    torch.manual_seed(0)
    return kind(LlamaConfig(**sizes, tie_word_embeddings=False, **more))


def train(kind: str, folder: str) -> None:
    """A training of the Trainer's own. `kind`: plain, or one of RANKED."""
    more: dict[str, Any] = {}
    if kind.startswith("zero"):
        more["deepspeed"] = {"zero_optimization": {"stage": int(kind[4:]), **BUCKETS}, **dict.fromkeys(AUTO, "auto")}
    if kind.startswith("fsdp"):
        ranks_of_an_accelerator()
        more |= {"fsdp": True, "fsdp_config": {**FSDP, "version": int(kind[4:])}}
    arguments = TrainingArguments(output_dir=folder, **ON_CPU, **more)
    rows = [{"input_ids": torch.arange(LENGTH), "labels": torch.arange(LENGTH)} for _ in range(16)]
    trainer = Trainer(small(), arguments, train_dataset=rows)
    memlint.train.watch(trainer, gpu="A100-80GB")
    trainer.train()


def ranks_of_an_accelerator() -> None:
    """Has accelerate take CPU ranks for those of an accelerator, as whose it reads FSDP."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    plain = PartialState.__init__

    def called_otherwise(self: PartialState, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.MULTI_XPU

    PartialState.__init__ = called_otherwise


def train_with_trl(kind: str, folder: str) -> None:
    """A training of TRL, of words that a tokenizer of its own knows."""
    import trl
    from datasets import Dataset

    tiles_without_temporaries()
    text = " ".join(map(str, range(100)))
    pair = {"chosen": text, "rejected": text}
    made: dict[str, tuple[Any, Any, dict[str, str]]] = {
        "sft": (trl.SFTTrainer, trl.SFTConfig, {"text": text}),
        "dpo": (trl.DPOTrainer, trl.DPOConfig, {"prompt": text, **pair}),
        "grpo": (trl.GRPOTrainer, trl.GRPOConfig, {"prompt": text}),
        "reward": (trl.RewardTrainer, trl.RewardConfig, pair),
    }
    trainer_class, config_class, columns = made[kind]
    options: dict[str, Any] = {"train_dataset": Dataset.from_list([columns] * 32), "processing_class": words()}
    common = {**ON_CPU, "output_dir": folder, "bf16": False, "gradient_checkpointing": False}
    if kind == "grpo":
        common |= {"num_generations": 2, "max_completion_length": 16}
        options["reward_funcs"] = lambda completions, **told: [float(len(one)) for one in completions]
    trained = small(kind=LlamaForSequenceClassification, num_labels=1) if kind == "reward" else small()
    if kind == "dpo":
        options["ref_model"] = small()
    trainer = trainer_class(model=trained, args=config_class(**common), **options)
    memlint.train.watch(trainer, gpu="A100-80GB")
    trainer.train()


def tiles_without_temporaries() -> None:
    """Stands in for the Triton kernels of TRL's fused head. Losses and gradients mean nothing then."""
    import trl.kernels.chunked_logprob as head

    head._forward_tile = lambda tile, stride, targets, largest, total, *rest, **flags: total.fill_(1.0)
    head._backward_tile = lambda tile, *rest, **flags: None


def words() -> Any:
    """A tokenizer that knows a thousand words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = {word: number for number, word in enumerate(("<pad>", "<eos>", *map(str, range(1000))))}
    inner = Tokenizer(models.WordLevel(known, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


def table() -> None:
    """Each kind in processes of its own: MiB by phase, predicted / measured."""
    print(f"| training | {' | '.join(name.replace('_', ' ') for name in PHASES)} |")
    print("|---" * (len(PHASES) + 1) + "|")
    for kind in KINDS:
        if kind in NEEDS and find_spec(NEEDS[kind]) is None:
            print(f"| {kind} | {NEEDS[kind]} is not installed |", flush=True)
            continue
        phases = _phases_of(kind)
        cells = (_cell(**phases[name]) if name in phases else "-" for name in PHASES)
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


def _phases_of(kind: str) -> dict[str, Any]:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2") if kind in RANKED else ()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *launcher, __file__, kind, folder]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode:
            raise SystemExit(f"{kind}: {done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads((Path(folder) / FILE).read_text(encoding="utf-8"))["phases"]
        return found


def _cell(predicted_bytes: int | None, measured_bytes: int | None) -> str:
    if not predicted_bytes or not measured_bytes:
        return "-"
    off = 100 * (predicted_bytes / measured_bytes - 1)
    return f"{predicted_bytes / 2**20:.2f} / {measured_bytes / 2**20:.2f} ({off:+.1f} %)"


def cost(steps: int = 2_000) -> None:
    """Microseconds that hooks add to a step: in the first ones, which are all measured, and in later ones. Then the
    share of a real step."""
    logging.disable(logging.INFO)
    layer = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
    inputs = torch.zeros((1, 1))
    step = _real_step()
    print(
        f"one step of 100 M parameters with {REAL_LENGTH} tokens on {torch.get_num_threads()} CPU threads: {step:.2f} s"
    )
    for name, always in (("every phase measured", True), ("no batch longer than before", False)):
        added = statistics.median(_added(layer, optimizer, inputs, steps, always) for _ in range(5))
        print(
            f"{name}: {1e6 * added:.1f} us a step, {100 * added / step:.4f} % of that one, "
            f"0.1 % of any that takes {1e6 * added:.0f} ms"
        )


def _added(layer: Any, optimizer: Any, inputs: torch.Tensor, steps: int, always: bool) -> float:
    bare = _seconds(layer, optimizer, inputs, steps)
    session = Session(Training(layer, optimizer, {}, (1, 1)), "ignore", FreeCounters())
    session.start()
    if always:
        session.recorder.steps = -(10**9)
    _seconds(layer, optimizer, inputs, 20)
    watched = _seconds(layer, optimizer, inputs, steps)
    session.stop()
    return (watched - bare) / steps


def _seconds(layer: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, steps: int) -> float:
    start = time.process_time()
    for _ in range(steps):
        layer(inputs).sum().backward()
        optimizer.step()
    return time.process_time() - start


def _real_step(steps: int = 3) -> float:
    """Seconds of computing, which other programs on the machine do not lengthen."""
    model = small(REAL)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.arange(REAL_LENGTH).unsqueeze(0)
    taken = []
    for _ in range(steps + 1):
        start = time.process_time()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        taken.append(time.process_time() - start)
    return min(taken[1:])


def main(kind: str, folder: str = "") -> None:
    if kind in ("table", "cost"):
        {"table": table, "cost": cost}[kind]()
    else:
        (train_with_trl if kind in TRL else train)(kind, folder or tempfile.mkdtemp())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main(*sys.argv[1:])
