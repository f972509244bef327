"""Launch files and DeepSpeed files against their own frameworks.

    python benchmarks/corpus/engine_refusals.py [N] [-v]

N random files (default 2,000 of each kind) are sound ones with up to three options changed. Each is given to memlint
and to the framework as far as a machine without a GPU goes: `DeepSpeedConfig` (0.19.8), and accelerate's launcher with
the plug-ins that it fills (1.15.0). Counted are what the framework refuses, what of that memlint does not report as an
error (missed), and errors where the framework takes the file (false alarms). Errors about later moments, when the
engine is built or trains, are no false alarms: the framework's answer here says nothing of them. `-v` prints each
difference, `--write` keeps the counts for docs/rules-precision.md.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import DeepSpeedPlugin, DistributedType, FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

from benchmarks.command import parser
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

os.environ.setdefault("DS_ACCELERATOR", "cpu")
Options = Mapping[tuple[str, ...], tuple[Any, ...]]
# They speak of the built engine, of the first step, or of the launcher's processes.
_LATER = frozenset(
    {"DSP005", "DSP007", "DSP019", "DSP020", "DSP021", "DSP022", "DSP024", "ACC003", "ACC008", "ACC012", "FSD002"}
)
_ZERO = "zero_optimization"
COUNTS = Path(__file__).resolve().parents[1] / "data" / "engine_refusals.json"
DEEPSPEED_BASE: dict[str, Any] = {"train_micro_batch_size_per_gpu": 4, _ZERO: {"stage": 2}, "bf16": {"enabled": True}}
DEEPSPEED: Options = {
    (_ZERO, "stage"): (0, 1, 2, 3, 4, "2"),
    (_ZERO, "offload_optimizer"): ({"device": "cpu"}, {"device": "nvme"}, {"device": "gpu"}, {"ratio": 0.5}, None),
    (_ZERO, "offload_param"): ({"device": "cpu"}, {"device": "disk"}, {"buffer_count": -1}),
    (_ZERO, "cpu_offload"): (True, False),
    (_ZERO, "cpu_offload_param"): (True,),
    (_ZERO, "compute_grad_norm"): (False, True),
    (_ZERO, "reduce_bucket_size"): (5e8, 0, -1, "5e8", 1.5),
    (_ZERO, "stage3_max_live_parameters"): (1e9, -1, "auto"),
    (_ZERO, "mics_shard_size"): (4,),
    (_ZERO, "overlap_comm"): (True, False, "auto"),
    (_ZERO, "contiguous_gradient"): (True,),
    ("train_batch_size",): (4, 8, 3, 0, -4),
    ("train_micro_batch_size_per_gpu",): (1, 4, 0, -1),
    ("gradient_accumulation_steps",): (1, 2, 0, -1),
    ("gradient_clipping",): (1.0, 0.0),
    ("gradient_allreduce_op",): ("mean", "sum", "max"),
    ("communication_data_type",): ("fp16", "bf16", "float16"),
    ("bf16",): ({"enabled": False}, {"enabled": True, "bf16_optimizer_states": True}),
    ("bf16", "bf16_master_weights_and_grads"): (True, False),
    ("fp16",): ({"enabled": True}, {"enabled": False}, {"enabled": True, "loss_scale": -1}),
    ("fp16", "hysteresis"): (2, 3),
    ("fp16", "loss_scale_window"): (1000, 0),
    ("fp16", "min_loss_scale"): (1, 0),
    ("optimizer",): ({"type": "AdamW", "params": {"lr": 1e-5}}, {"type": "Lamb", "params": {}}),
    ("data_types", "keep_in_fp32_modules"): ("auto", "rotary", ["rotary"]),
    ("torch_autocast",): ({"enabled": True, "dtype": "bfloat16"}, {"enabled": True, "dtype": "half16"}),
    ("checkpoint", "tag_validation"): ("Warn", "no"),
    ("compression_training",): ({},),
    ("elasticity",): ({"enabled": True},),
}
LAUNCH_BASE: dict[str, Any] = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "FSDP",
    "mixed_precision": "bf16",
    "num_machines": 1,
    "machine_rank": 0,
    "num_processes": 8,
    "fsdp_config": {"fsdp_version": 2, "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"},
}
_DEGREES = tuple(f"parallelism_config_{name}_size" for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp"))
LAUNCH: Options = {
    ("distributed_type",): ("FSDP", "MULTI_GPU", "DEEPSPEED"),
    ("mixed_precision",): ("bf16", "fp16", False, "int8"),
    ("num_processes",): (8, 4, 2),
    ("num_machines",): (1, 2),
    ("gpu_ids",): ("all", 0, "0,1,2,3,4,5,6,7"),
    ("fsdp_config", "fsdp_version"): (1, 2),
    ("fsdp_config", "fsdp_sharding_strategy"): ("FULL_SHARD", "SHARD_GRAD_OP", "FULLSHARD", 1),
    ("fsdp_config", "fsdp_reshard_after_forward"): (True, False, "FULL_SHARD"),
    ("fsdp_config", "fsdp_state_dict_type"): ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "WHOLE"),
    ("fsdp_config", "fsdp_auto_wrap_policy"): ("SIZE_BASED_WRAP", "NO_WRAP", "WRAP"),
    ("fsdp_config", "fsdp_min_num_params"): (1000, "1e8", 1.0e8),
    ("fsdp_config", "fsdp_backward_prefetch"): ("BACKWARD_PRE", "BEFORE"),
    ("fsdp_config", "fsdp_forward_prefetch"): (True, False),
    ("fsdp_config", "fsdp_sync_module_states"): (True, False),
    ("fsdp_config", "fsdp_cpu_ram_efficient_loading"): (True, False),
    ("fsdp_config", "fsdp_activation_checkpointing"): (True, False),
    ("fsdp_config", "fsdp_activation_checkpointing_offload"): (True, False),
    ("fsdp_config", "fsdp_use_orig_params"): (True, False),
    **{("parallelism_config", name): (1, 2, 4, 0) for name in _DEGREES},
    ("deepspeed_config", "zero_stage"): (0, 2, 3),
    ("deepspeed_config", "offload_optimizer_device"): ("cpu", "none", "nvme"),
    ("unknown_key",): (1,),
}


def changed(base: Mapping[str, Any], options: Options, seed: int) -> dict[str, Any]:
    """`base` with up to three options set, as `seed` draws them."""
    draw = random.Random(seed)
    value: dict[str, Any] = json.loads(json.dumps(base))
    for keys in draw.sample(sorted(options), draw.randint(1, 3)):
        inner = value
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = draw.choice(options[keys])
    return value


def deepspeed_refuses(value: dict[str, Any]) -> str:
    """Why DeepSpeed does not take a configuration; "" where it does. `auto` is Hugging Face's word: it is left out."""
    from deepspeed.runtime.config import DeepSpeedConfig  # no dependency of the tests

    return _reason(lambda: DeepSpeedConfig(json.loads(json.dumps(value))))


def launcher_refuses(value: dict[str, Any]) -> str:
    """Why `accelerate launch` or the plug-ins that it fills do not take a file; "" where they do."""
    kept = dict(os.environ)
    try:
        return _reason(lambda: _launch(value))
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _launch(value: dict[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(value, file)
        file.flush()
        words, defaults, named = _validate_launch_command(
            launch_command_parser().parse_args(["--config_file", file.name, "train.py"])
        )
    if words.use_deepspeed:
        fields = [*defaults.deepspeed_config, *(["mixed_precision"] if named else [])]
        words.deepspeed_fields_from_accelerate_config = ",".join(fields)
        _, environment = prepare_deepspeed_cmd_env(words)
    else:
        environment = prepare_multi_gpu_env(words)
    os.environ.update({k: v for k, v in environment.items() if k.startswith(("FSDP", "ACCELERATE", "PARALLELISM"))})
    version = _plugin() if words.use_fsdp else 0
    if words.use_deepspeed:
        DeepSpeedPlugin()
    if environment.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true":
        kind = DistributedType.FSDP if words.use_fsdp else DistributedType.MULTI_GPU
        kind = DistributedType.DEEPSPEED if words.use_deepspeed else kind
        accelerator = SimpleNamespace(multi_device=True, num_processes=words.num_processes, distributed_type=kind)
        accelerator.is_fsdp2 = version == 2
        accelerator.is_main_process = False
        ParallelismConfig()._validate_accelerator(accelerator)


def _plugin() -> int:
    """FSDP's version, once its plug-in is filled; its last step asks for a card."""
    try:
        FullyShardedDataParallelPlugin()
    except RuntimeError as error:
        if "no available devices" not in str(error):
            raise
    return int(os.environ["FSDP_VERSION"])


def _reason(call: Callable[[], object]) -> str:
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return ""


def reported(rules: Engine, value: dict[str, Any], name: str) -> tuple[list[str], list[str]]:
    """Errors of memlint; and those of them that should show here."""
    workspace = in_memory({name: json.dumps(value)})
    analysis = rules.analyse(workspace.documents(name)[0], workspace.context(gpus=value.get("num_processes", 1)))
    # What only the newest release refuses is a warning while nobody says which is in use.
    found = [item for item in analysis.findings if item.severity == "error" or item.rule == "CFG006"]
    texts = [f"{item.rule} {item.message}" for item in found]
    return texts, [text for text in texts if text.split()[0] not in _LATER]


def compare(
    name: str,
    base: Mapping[str, Any],
    options: Options,
    refuses: Callable[[dict[str, Any]], str],
    number: int,
    verbose: bool,
) -> dict[str, int]:
    rules = Engine(shipped())
    counts = {"tried": number, "refused": 0, "missed": 0, "false alarms": 0}
    for seed in range(number):
        value = changed(base, options, seed)
        reason, (found, due) = refuses(value), reported(rules, value, name)
        counts["refused"] += bool(reason)
        kind = "missed" if reason and not found else "false alarms" if due and not reason else ""
        if kind:
            counts[kind] += 1
            if verbose:
                print(f"{kind}: {reason or due[0][:150]} | {json.dumps(value)}")
    return counts


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    arguments = parser(__doc__)
    arguments.add_argument("number", nargs="?", type=int, default=2000, help="files of each kind")
    arguments.add_argument("-v", "--verbose", action="store_true", help="print what is missed and falsely alarmed")
    arguments.add_argument("--write", action="store_true", help="keep the counts for the page of the rules")
    options = arguments.parse_args()
    number, verbose = options.number, options.verbose
    found = {
        "DeepSpeed 0.19.8": compare("ds_config.json", DEEPSPEED_BASE, DEEPSPEED, deepspeed_refuses, number, verbose),
        "accelerate 1.15.0": compare("launch.json", LAUNCH_BASE, LAUNCH, launcher_refuses, number, verbose),
    }
    print(*(f"{name}: {counts}" for name, counts in found.items()), sep="\n")
    if options.write:
        COUNTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
