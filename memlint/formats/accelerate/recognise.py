"""Which files are accelerate's launch files."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "accelerate"
SCHEMA = "accelerate.json"

_TELLTALE_KEYS = frozenset(
    {"distributed_type", "compute_environment", "num_machines", "machine_rank", "main_training_function"}
)
_OTHERS = frozenset(
    {
        *("num_processes", "mixed_precision", "use_cpu", "debug", "downcast_bf16", "rdzv_backend", "same_network"),
        *("gpu_ids", "main_process_ip", "main_process_port", "enable_cpu_affinity", "deepspeed_config", "fsdp_config"),
        *("fp8_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "dynamo_config", "dynamo_backend"),
        *("tpu_env", "tpu_use_cluster", "tpu_use_sudo", "tpu_name", "tpu_zone", "tpu_vm", "commands", "command_file"),
        *("ec2_instance_type", "iam_role_name", "image_uri", "profile", "region", "base_job_name", "fp16"),
        *("pytorch_version", "transformers_version", "py_version", "sagemaker_inputs_file", "sagemaker_metrics_file"),
        *("additional_args", "deepspeed_hostfile", "ipex_config"),
    }
)


def recognise(document: Document) -> Recognition:
    """By keys: those that `accelerate config` writes. A training config has other keys as well."""
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    telling = len(_TELLTALE_KEYS.intersection(value))
    known = telling + len(_OTHERS.intersection(value))
    if not telling or 2 * known < len(value):
        return Recognition("no")
    words = ("num_processes", "mixed_precision", "fsdp_config", "deepspeed_config", "use_cpu", "iam_role_name")
    if telling > 1 or ("distributed_type" in value and any(word in value for word in words)):
        return Recognition("certain", "companion", f"{known} keys of accelerate's launch file")
    return Recognition("likely" if known > 1 else "unsure", "companion", f"{known} keys of accelerate's launch file")
