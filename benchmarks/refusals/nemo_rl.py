"""NeMo-RL's own answer: what its programs do with a recipe, or with a command's overrides, until a model is loaded.

Its `main` runs, with stand-ins for Ray's clusters and workers, the tokenizer, the data and the training loop; then the
checks that its DTensor workers make of their section."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import importlib.util
import shlex
import sys
import tempfile
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from benchmarks.mistakes.fields import Field, Place
from benchmarks.mistakes.judges import refusal, tiny_checkpoint
from benchmarks.refusals.absent import stand_in
from benchmarks.refusals.drawn import MISSING, Options, Original

NAME, RELEASE, FILE = "NeMo-RL", "0.7.0", "run.sh"
VERSIONS = {"nemo_rl": (0, 7, 0)}
# Keys of a configuration that say how it is started, and are none of NeMo-RL's.
_PROGRAM, _STARTED = "program", "started"
KEPT = ((_PROGRAM,), (_STARTED,))
# Found at the first update, once a batch is there, or by the model that is loaded.
LATER = (
    *("NeMo-RL stops at the first update", "cannot be divided among", "train_micro_batch_size` must be"),
    # vLLM itself looks at these.
    *(f"vllm_cfg.{key}` wants" for key in ("gpu_memory_utilization", "async_engine", "use_tqdm", "enforce_eager")),
    *(f"vllm_cfg.{key}` must be" for key in ("gpu_memory_utilization", "max_model_len")),
)
_COMMON = ("policy", "cluster", "checkpointing", "logger")  # sections that all algorithms have
_VLLM = "nemo_rl.models.generation.vllm.vllm_generation"
_BASES = {"grpo": "grpo_math_1B.yaml", "dpo": "dpo.yaml", "sft": "sft.yaml", "rm": "rm.yaml"}
_ABSENT = (
    *("ray", "httpx", "absl", "scipy", "prometheus_client", "fastapi", "vllm", "torchdata", "nemo_automodel"),
    *("math_verify", "mlflow", "wandb", "swanlab", "decord", "nemo_gym", "zmq", "megatron", "transfer_queue"),
    *("num2words", "latex2sympy2_extended", "pynvml", "prettytable", "sglang", "torchvision", "librosa", "soundfile"),
    *("nvtx", "tensordict", "uvicorn", "aiohttp", "requests_toolbelt"),
)
_SHARED: dict[str, Any] = {
    "policy": {
        "model_name": "Qwen/Qwen2.5-1.5B",
        "train_global_batch_size": 512,
        "train_micro_batch_size": 4,
        "max_total_sequence_length": 1024,
        "dtensor_cfg": {"tensor_parallel_size": 1, "activation_checkpointing": True},
        "optimizer": {"kwargs": {"lr": 1e-6}},
    },
    "cluster": {"gpus_per_node": 8, "num_nodes": 1},
}


def _over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`more` merged into `base`, section by section."""
    found = copy.deepcopy(dict(base))
    for key, item in more.items():
        found[key] = _over(found[key], item) if isinstance(item, dict) and key in found else copy.deepcopy(item)
    return found


_GRPO = _over(
    _SHARED,
    {
        _PROGRAM: "grpo",
        _STARTED: "file",
        "grpo": {"num_prompts_per_step": 32, "num_generations_per_prompt": 16, "max_num_steps": 500},
        "loss_fn": {"reference_policy_kl_penalty": 0.01},
        "policy": {"generation": {"vllm_cfg": {"tensor_parallel_size": 1, "gpu_memory_utilization": 0.6}}},
    },
)
_ASYNC = _over(
    _GRPO,
    {
        "grpo": {"async_grpo": {"enabled": True, "max_trajectory_age_steps": 1}},
        "loss_fn": {"use_importance_sampling_correction": True},
        "policy": {
            "generation": {
                "vllm_cfg": {"async_engine": True},
                "colocated": {"enabled": False, "resources": {"gpus_per_node": 4, "num_nodes": 1}},
            }
        },
    },
)
_DPO = _over(
    _SHARED,
    {
        _PROGRAM: "dpo",
        _STARTED: "file",
        "dpo": {"max_num_steps": 150, "reference_policy_kl_penalty": 0.05},
        "policy": {"train_global_batch_size": 128, "train_micro_batch_size": 2},
    },
)
_SFT = _over(
    _SHARED,
    {
        _PROGRAM: "sft",
        _STARTED: "file",
        "sft": {"max_num_steps": 60, "val_period": 10},
        "policy": {"train_global_batch_size": 128, "train_micro_batch_size": 1},
    },
)
_SWITCH = (True, False)
_POLICY: Mapping[str, tuple[Any, ...]] = {
    "policy.precision": ("bfloat16", "float32", "float16", "bf16", "fp16"),
    "policy.train_global_batch_size": (512, 256, 128, 100),
    "policy.train_micro_batch_size": (1, 2, 4, 8),
    "policy.max_total_sequence_length": (512, 4096, "4k"),
    "policy.max_grad_norm": (1.0, "one", MISSING),
    "policy.dtensor_cfg.enabled": _SWITCH,
    "policy.dtensor_cfg._v2": _SWITCH,
    "policy.dtensor_cfg.tensor_parallel_size": (1, 2, 3, 4, 16),
    "policy.dtensor_cfg.context_parallel_size": (1, 2, 4),
    "policy.dtensor_cfg.dp_replicate_size": (2, 3),
    "policy.dtensor_cfg.sequence_parallel": _SWITCH,
    "policy.dtensor_cfg.cpu_offload": _SWITCH,
    "policy.dtensor_cfg.activation_checkpointing": (True, False, "full"),
    "policy.dtensor_cfg.lora_cfg.enabled": _SWITCH,
    "policy.dtensor_cfg.lora_cfg.dim": (8, 32, "8x"),
    "policy.dtensor_cfg.lora_cfg.use_triton": _SWITCH,
    "policy.dtensor_cfg.lora_cfg.dropout_position": ("pre", "post", "middle"),
    "policy.dtensor_cfg.automodel_kwargs.attn_implementation": ("sdpa", "flash_attention_2"),
    "policy.megatron_cfg.enabled": _SWITCH,
    "policy.sequence_packing.enabled": _SWITCH,
    "policy.dynamic_batching.enabled": _SWITCH,
    "policy.draft.enabled": (True,),
    "policy.optimizer.kwargs.lr": (1e-6, "high"),
    "policy.fsdp_offload_enabled": (False,),
    "cluster.gpus_per_node": (8, 4, 1),
    "cluster.num_nodes": (1, 2),
    "checkpointing.enabled": _SWITCH,
    "checkpointing.metric_name": ("val_loss", "val:loss", None),
    "checkpointing.keep_top_k": (3, None, "three"),
    "logger.wandb_enabled": (False, "off"),
}
_RL: Mapping[str, tuple[Any, ...]] = {
    "policy.logprob_batch_size": (1, 2, 4),
    "policy.generation.backend": ("vllm", "megatron", "sglang", "hf"),
    "policy.generation.top_p": (1.0, 0.9, 1.5, 0.0),
    "policy.generation.top_k": (None, -1, 0, 50),
    "policy.generation.temperature": (1.0, 0.0),
    "policy.generation.vllm_cfg.async_engine": _SWITCH,
    "policy.generation.vllm_cfg.precision": ("bfloat16", "fp8"),
    "policy.generation.vllm_cfg.kv_cache_dtype": ("auto", "fp8", "fp8_e4m3"),
    "policy.generation.vllm_cfg.tensor_parallel_size": (1, 2, 3, 4),
    "policy.generation.vllm_cfg.pipeline_parallel_size": (1, 2),
    "policy.generation.vllm_cfg.expert_parallel_size": (1, 2, 4),
    "policy.generation.vllm_cfg.gpu_memory_utilization": (0.6, 0.9, "half"),
    "policy.generation.colocated.enabled": _SWITCH,
    "policy.generation.colocated.resources.gpus_per_node": (None, 2, 4, 8),
    "policy.generation.colocated.resources.num_nodes": (None, 1, 2),
    "grpo.num_prompts_per_step": (32, 16, 64, 0, "many"),
    "grpo.num_generations_per_prompt": (1, 8, 16),
    "grpo.batch_multiplier": (1, 2, 1.5),
    "grpo.use_dynamic_sampling": _SWITCH,
    "grpo.val_period": (0, 10, "often"),
    "grpo.seed": (1, "seed"),
    "grpo.max_val_samples": (8, 1.5),
    "grpo.overlong_filtering": (True, "maybe"),
    "grpo.max_rollout_turns": (2, "few"),
    "loss_fn.ratio_clip_min": (0.2, "low"),
    "loss_fn.use_kl_in_reward": (True, "maybe"),
    "data.shuffle": (True, "maybe"),
    "grpo.adv_estimator.name": ("grpo", "gdpo", "reinforce_plus_plus", "rloo", "gae"),
    "grpo.async_grpo.enabled": _SWITCH,
    "grpo.async_grpo.in_flight_weight_updates": _SWITCH,
    "grpo.reward_scaling.enabled": _SWITCH,
    "grpo.reward_shaping.enabled": _SWITCH,
    "grpo.skip_reference_policy_logprobs_calculation": _SWITCH,
    "grpo.seq_logprob_error_threshold": (2, None, MISSING),
    "loss_fn.reference_policy_kl_penalty": (0, 0.01),
    "loss_fn.reference_policy_kl_type": ("k1", "k2", "k3", "low_var_kl"),
    "loss_fn.ratio_clip_c": (None, 3.0),
    "loss_fn.use_importance_sampling_correction": _SWITCH,
    "loss_fn.sequence_level_importance_ratios": _SWITCH,
    "loss_fn.token_level_loss": _SWITCH,
    "loss_fn.force_on_policy_ratio": _SWITCH,
    "loss_fn.use_cispo": _SWITCH,
    "loss_fn.disable_ppo_ratio": _SWITCH,
    "loss_fn.truncated_importance_sampling_type": ("tis", "icepop", "seq-mask-tis", "clip"),
    "loss_fn.truncated_importance_sampling_ratio": (5.0, 2.0),
    "loss_fn.truncated_importance_sampling_ratio_min": (0.5, 6.0),
    "data.use_multiple_dataloader": _SWITCH,
}
_DPO_MORE = {"dpo.val_period": (0, 25), "dpo.reference_policy_kl_penalty": (0.05, "low"), "dpo.sft_loss_weight": (0.1,)}
_SFT_MORE = {"sft.val_period": (0, 10), "sft.val_micro_batch_size": (1, 2), "sft.max_num_epochs": (1, 2.5)}


def _options(*tables: Mapping[str, tuple[Any, ...]]) -> Options:
    return {tuple(key.split(".")): values for table in tables for key, values in table.items()}


_OF_RL = _options(_POLICY, _RL)
ORIGINALS: Mapping[str, Original] = {
    "grpo": Original(_GRPO, _OF_RL),
    "grpo-command": Original({**_GRPO, _STARTED: "command"}, _OF_RL),
    "grpo-async": Original(_ASYNC, _OF_RL),
    "dpo": Original(_DPO, _options(_POLICY, _DPO_MORE)),
    "sft": Original(_SFT, _options(_POLICY, _SFT_MORE)),
    "sft-command": Original({**_SFT, _STARTED: "command"}, _options(_POLICY, _SFT_MORE)),
}


def fields() -> dict[Place, Field]:
    """Every number and switch in the common sections of GRPO's base recipe by its place."""
    content = yaml.safe_load(_base("grpo").read_text(encoding="utf-8"))
    leaves = ((place, value) for place, value in _leaves(content) if place[0] in _COMMON)
    return {place: Field(type(value)) for place, value in leaves if type(value) in (int, float, bool)}


def _leaves(value: Any, above: Place = ()) -> Iterator[tuple[Place, Any]]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _leaves(item, (*above, key))
        else:
            yield (*above, key), item


def _folder() -> Path:
    return next(Path(path) for path in sys.path if Path(path).name.startswith("nemo_rl-"))


def _base(program: str) -> Path:
    return _folder() / "examples" / "configs" / _BASES[program]


def _own(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if (key,) not in KEPT}


def beside(value: Mapping[str, Any]) -> dict[str, str]:
    """The recipe that the command names, and the base below it."""
    base = _BASES[value[_PROGRAM]]
    files = {f"examples/configs/{base}": _base(value[_PROGRAM]).read_text(encoding="utf-8")}
    if value[_STARTED] == "file":
        files["examples/configs/recipe.yaml"] = yaml.safe_dump({"defaults": base, **_own(value)}, sort_keys=False)
    return files


def written(value: Mapping[str, Any]) -> str:
    started = value[_STARTED] == "file"
    config = "recipe.yaml" if started else _BASES[value[_PROGRAM]]
    words = [] if started else _overrides(value)
    command = ["uv", "run", f"examples/run_{value[_PROGRAM]}.py", "--config", f"examples/configs/{config}", *words]
    return f"{shlex.join(command)}\n"


def _overrides(value: Mapping[str, Any]) -> list[str]:
    texts = {None: "null", True: "true", False: "false"}
    return [
        f"{'.'.join(place)}={item if not isinstance(item, bool | None) else texts[item]}"
        for place, item in _leaves(_own(value))
    ]


def refuses(value: Mapping[str, Any]) -> str:
    return refusal(lambda: _run(value))


def _run(value: Mapping[str, Any]) -> None:
    program = _program(value[_PROGRAM])
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        recipe, words = _base(value[_PROGRAM]), _overrides(value)
        if value[_STARTED] == "file":
            recipe, words = Path(folder, "recipe.yaml"), []
            content = {"defaults": str(_base(value[_PROGRAM])), **_own(value)}
            recipe.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        stack.enter_context(mock.patch.object(sys, "argv", ["run.py", "--config", str(recipe), *words]))
        program.main()


@functools.cache
def _program(name: str) -> types.ModuleType:
    """The program's module, with stand-ins for what only a cluster has."""
    _prepare()
    setup = importlib.import_module(f"nemo_rl.algorithms.{name}")
    _replace(setup, RayVirtualCluster=_Cluster, StatefulDataLoader=_Rows, Logger=mock.MagicMock(), Policy=_policy())
    if name == "grpo":
        engines = importlib.import_module(_VLLM)
        _replace(engines, RayWorkerGroup=_workers)
        engines.VllmGeneration._get_tied_worker_bundle_indices = lambda *_: []
        _replace(setup, SGLangGeneration=_Engine, MegatronGeneration=_Engine)
    file = _folder() / "examples" / f"run_{name}.py"
    spec = importlib.util.spec_from_file_location(f"nemo_rl_run_{name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _replace(module, init_ray=mock.MagicMock(), get_tokenizer=mock.MagicMock(), get_next_experiment_dir=str)
    if name == "grpo":
        data: tuple[Any, ...] = (mock.MagicMock(), mock.MagicMock(), {}, {})
        _replace(module, setup_response_data=lambda *_: data, _select_trainer=lambda _: _begun(setup.grpo_train))
        _replace(setup, async_grpo_train=_begun(setup.async_grpo_train))
        _replace(setup, get_actor_python_env=_collects)
        _replace(setup, _create_advantage_estimator=_starts(setup._create_advantage_estimator))
    else:
        data = (mock.MagicMock(), mock.MagicMock())
        _replace(module, setup_data=lambda *_: data, setup_preference_data=lambda *_: data)
        _replace(module, **{f"{name}_train": mock.MagicMock()})
    return module


def _replace(module: types.ModuleType, **stands: Any) -> None:
    for name, stand in stands.items():
        setattr(module, name, stand)


class _Starts(Exception):
    """All checks of the configuration are behind."""


def _starts(last: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The estimator of advantages is the last that the loop makes; an asynchronous one has a check more."""

    def check(config: Any) -> None:
        last(config)
        if not config.grpo["async_grpo"]["enabled"]:
            raise _Starts

    return check


def _collects(*_: Any) -> None:
    raise _Starts


def _begun(loop: Callable[..., None]) -> Callable[..., None]:
    """The loop as far as it makes the estimator of advantages."""

    def begin(*values: Any, **more: Any) -> None:
        with contextlib.suppress(_Starts):
            loop(*values, **more)

    return begin


def _workers(*_: Any, sharding_annotations: Any, **__: Any) -> Any:
    group = mock.MagicMock()
    group.dp_size = sharding_annotations.get_axis_size("data_parallel")
    group.workers = [mock.MagicMock()] * sharding_annotations.layout.size
    return group


class _Engine:
    """An engine that writes completions."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """It takes any section."""

    def __getattr__(self, name: str) -> Any:
        return mock.MagicMock()


class _Cluster:
    """As many GPUs as are asked for."""

    _sorted_bundle_indices = None
    _nvlink_domain_per_bundle_index = None

    def __init__(self, bundle_ct_per_node_list: list[int], num_gpus_per_node: int, **_: Any) -> None:
        self.gpus, self.num_gpus_per_node = sum(bundle_ct_per_node_list), num_gpus_per_node

    def world_size(self) -> int:
        return self.gpus

    def get_master_address_and_port(self) -> tuple[str, int]:
        return "localhost", 1

    def get_placement_groups(self) -> list[Any]:
        return [mock.MagicMock()]

    def _init_placement_groups(self, **_: Any) -> None:
        """No groups are needed."""


class _Rows:
    """A data loader of a hundred batches."""

    def __init__(self, dataset: Any, batch_size: int, **_: Any) -> None:
        if not batch_size > 0:  # as torch's sampler
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")

    def __len__(self) -> int:
        return 100


def _policy() -> type:
    """NeMo-RL's Policy, whose workers make the checks of their section in its place."""
    from nemo_rl.models.policy import lm_policy

    _replace(lm_policy, get_default_hf_config=_no_config, RayWorkerGroup=mock.MagicMock())

    class Checked(lm_policy.Policy):  # type: ignore[misc]
        def __init__(self, cluster: Any, config: Any, **options: Any) -> None:
            super().__init__(cluster=cluster, config=config, **options)
            if config["dtensor_cfg"]["enabled"]:
                _worker(config, cluster.world_size())

        def __getattr__(self, name: str) -> Any:
            return mock.MagicMock()

    return Checked


def _no_config(name: str) -> Any:
    raise ValueError(name)  # a model that its counter of operations does not know


def _worker(config: Mapping[str, Any], world: int) -> None:
    """nemo_rl/models/automodel/setup.py, and dtensor_policy_worker.py where `_v2` is off."""
    from nemo_rl.models.automodel import setup

    _replace(setup, create_device_mesh=lambda *_, **__: (mock.MagicMock(), mock.MagicMock()))
    value = {**copy.deepcopy(dict(config)), "model_name": tiny_checkpoint("qwen2")}
    if not config["dtensor_cfg"].get("_v2"):
        setup.STRING_TO_DTYPE[value["precision"]]
        if value["dtensor_cfg"]["context_parallel_size"] > 1 and value["sequence_packing"]["enabled"]:
            raise ValueError("Context parallel is not supported for sequence packing.")
        return
    with (
        mock.patch.object(setup, "resolve_model_class", lambda _: _Model),
        mock.patch.object(setup.torch, "distributed") as distributed,
    ):
        distributed.get_world_size.return_value = world
        runtime = setup.validate_and_prepare_config(value, None, 0)
        context = setup.setup_distributed(value, runtime)
        with contextlib.suppress(_Loads):
            setup.setup_model_and_optimizer(value, mock.MagicMock(), runtime, _sized(context, value), None)


def _sized(context: Any, value: Mapping[str, Any]) -> Any:
    """With the sizes that a device mesh has, for which a mock stands here."""
    section = value["dtensor_cfg"]
    plan = types.SimpleNamespace(sequence_parallel=section["sequence_parallel"])
    sizes = {"tp_size": section["tensor_parallel_size"], "cp_size": section["context_parallel_size"]}
    return context._replace(**sizes, fsdp2_config=plan)


class _Loads(Exception):
    """The model would be loaded now."""


class _Model:
    @staticmethod
    def from_pretrained(*_: Any, **__: Any) -> None:
        raise _Loads


@functools.cache
def _prepare() -> None:
    """NeMo-RL imports with the packages that are here: Python 3.12's typed dictionaries, and a transformers whose
    release it does not ask for."""
    import typing_extensions

    typing.TypedDict = typing_extensions.TypedDict  # type: ignore[assignment]
    stand_in(_ABSENT)
    sys.modules["torch.utils.tensorboard"] = mock.MagicMock()
    from transformers import AutoProcessor  # noqa: F401  # settles which module is `transformers`

    sys.modules["transformers"].__version__ = "5.5.0"  # type: ignore[attr-defined]
    sys.modules["nemo_automodel.NeMoAutoModelForTokenClassification"] = None  # type: ignore[assignment]
    base = importlib.import_module("nemo_automodel._transformers.auto_model")
    _replace(base, _BaseNeMoAutoModelClass=type("Base", (), {}))
    automodel = importlib.import_module("nemo_automodel")
    automodel.__class__ = _Pinned


class _Pinned(types.ModuleType):
    """The pinned Automodel, which lacks a class that NeMo-RL makes for it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "NeMoAutoModelForTokenClassification":
            raise AttributeError(name)
        return mock.MagicMock()
