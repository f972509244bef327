"""TRL's own GRPO and RLOO losses on fake tensors, beside memlint's figures for the same file.

    PYTHONPATH=FOLDER_WITH_TRL python benchmarks/referee/trl_updates.py            the cases of that release
    PYTHONPATH=FOLDER_WITH_TRL python benchmarks/referee/trl_updates.py --write    the same, kept in
                                                                                   benchmarks/data/trl_updates.jsonl

Needs one release of trl on the path, `datasets`, and liger_kernel for the cases with Liger's loss. What runs is that
release's trainer, `compute_loss` of trl.trainer.grpo_trainer and rloo_trainer: its forward, entropies,
log-probabilities and loss. Triton kernels are replaced by ones that write nothing: they allocate nothing. The
log-probabilities of a reference come before, as `_generate_and_score_completions` computes them. The model is prepared
as accelerate prepares it: autocast around the forward, outputs converted to fp32; in cases with `half` it is left as
DeepSpeed leaves it, in bfloat16 without either.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import benchmarks.referee.fake_step as fake_step
import memlint.simulation.checkpoints as checkpoints
import memlint.simulation.liger as liger
import memlint.simulation.precision as precision
from benchmarks.command import parser
from benchmarks.referee.beside import compare
from benchmarks.referee.engine_phases import MODEL, beside_the_state, estimate_of
from benchmarks.referee.rollout_phases import LAYERS, MODELS, SHAPE
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "trl_updates.jsonl"
SIZES = ((2, 512), (4, 1024))
TRAINERS = ("grpo", "rloo")
# Liger's loss over hidden states, by release: trl's _compute_loss of 1.14 on takes its own tiles instead.
LIGER_UNTIL = (1, 14)


def release() -> tuple[int, ...]:
    import trl  # type: ignore[import-not-found]

    return tuple(int(part) for part in trl.__version__.split(".")[:2])


def cases() -> Iterator[dict[str, Any]]:
    found = release()
    losses = (False, True) if found < LIGER_UNTIL else (False,)
    ways = itertools.product(TRAINERS, MODELS, SIZES, losses, (False, True))
    for trainer, (kind, model), (rows, length), uses_liger, in_half in ways:
        if (trainer == "rloo" or in_half) and uses_liger:
            continue
        config = {**model, **SHAPE, **LAYERS, "torch_dtype": "bfloat16"}
        yield {"trl": list(found), "trainer": trainer, "config_class": kind, "config": config} | {
            "B": rows,
            "S": length,
            "liger": uses_liger,
            **({"half": True} if in_half else {}),
        }


def file_of(case: dict[str, Any]) -> dict[str, Any]:
    """The run as a file of TRL's says it."""
    half = case["S"] // 2
    return {"model_name_or_path": MODEL, "dtype": "bfloat16", "bf16": "half" not in case, "beta": 0.04} | {
        "attn_implementation": "flash_attention_2",
        "per_device_train_batch_size": case["B"],
        "num_generations": case["B"],
        "max_prompt_length": half,
        "max_completion_length": half,
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "use_liger_kernel": case["liger"],
        "optim": "sgd",
        "output_dir": "o",
    }


# What a trainer learns of its tensors: a mask has no zeros, and the gradient of a loss is not other than one.
_READ = {"item": 0.0, "all": True, "__bool__": False}


class _OnFakeTensors(precision.CudaOperators):
    """Values that a trainer reads of its tensors to log them, and rows that a mask picks: all of a completion's."""

    def __init__(self, picked: int) -> None:
        super().__init__()
        self.picked = picked

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _READ:
            return _READ[name]
        if name == "__getitem__" and isinstance(args[1], torch.Tensor) and args[1].dtype == torch.bool:
            tensor, mask = args
            return tensor.flatten(0, mask.dim() - 1)[torch.zeros(self.picked, dtype=torch.int64)]
        return super().__torch_function__(func, types, args, kwargs)


def _accelerator() -> SimpleNamespace:
    def itself(tensor: Any, *_: Any, **__: Any) -> Any:
        return tensor

    return SimpleNamespace(
        autocast=partial(precision.autocast, torch.bfloat16),
        num_processes=1,
        sync_gradients=True,
        is_main_process=False,
        **dict.fromkeys(("gather", "gather_for_metrics", "reduce", "unwrap_model"), itself),
    )


_ARGUMENTS = {"delta": None, "report_to": [], "steps_per_generation": 1, "use_bias_correction_kl": False}
_SETTINGS: dict[str, Any] = {
    "beta": 0.04,
    "loss_type": "grpo",
    "epsilon_low": 0.2,
    "epsilon_high": 0.2,
    "importance_sampling_level": "token",
    "temperature": 1.0,
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "use_vllm": False,
    "aux_loss_enabled": False,
    "_entropy_bonus_enabled": False,
    "current_gradient_accumulation_steps": 1,
    "model_kwarg_keys": ("logits_to_keep",),
    "normalize_advantages": False,
    "reward_clip_range": None,
    "num_iterations": 1,
    "_is_vlm": False,
}


def trainer_of(case: dict[str, Any], model: Any) -> Any:
    """The release's trainer around a model, without what `__init__` does of data and devices."""
    import trl.trainer.grpo_trainer as grpo  # type: ignore[import-not-found]
    import trl.trainer.rloo_trainer as rloo  # type: ignore[import-not-found]

    module, kind = {"grpo": (grpo, grpo.GRPOTrainer), "rloo": (rloo, rloo.RLOOTrainer)}[case["trainer"]]
    made = object.__new__(kind)
    made.__dict__ |= _SETTINGS | {"model": model, "accelerator": _accelerator(), "use_liger_kernel": case["liger"]}
    made.args, made.state = SimpleNamespace(**_ARGUMENTS), SimpleNamespace(global_step=1)
    made.max_completion_length = case["S"] // 2
    made._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    made._forward_redirection = lambda wrapper, inner, method, *given: method(*given)
    if hasattr(module, "add_fused_lm_head"):
        module.add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    if case["liger"]:
        made.liger_loss = made.liger_grpo_loss = grpo.LigerFusedLinearGRPOLoss(
            beta=0.04, temperature=1.0, loss_type="grpo", use_ref_model=True, compiled=False, chunk_size=1
        )
    return made


def import_trainers() -> None:
    """The release's modules, with a package `triton` whose kernels write nothing."""
    fake_step.attention_functions.register()  # imports transformers, which asks for the real triton
    language = ModuleType("triton.language")
    language.constexpr = int  # type: ignore[attr-defined]
    package = ModuleType("triton")
    package.__dict__.update(jit=lambda function: _Kernel(), cdiv=lambda a, b: -(-a // b), language=language)
    added = {"triton": package, "triton.language": language}
    sys.modules.update(added)
    import transformers.utils as utils

    real, utils.is_triton_available = utils.is_triton_available, lambda: True
    import trl.trainer.grpo_trainer
    import trl.trainer.rloo_trainer  # noqa: F401

    utils.is_triton_available = real
    for name in added:
        del sys.modules[name]
    take_cuda_branches()


class _Kernel:
    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *given, **named: None


def take_cuda_branches() -> None:
    """The branches that a release takes on CUDA: with its kernels, and products that add into an fp32 tensor."""
    branches: dict[str, Any] = {
        "_use_triton": lambda device: True,
        "_supports_trl_loss_kernel": lambda *given: True,
        "is_triton_available": lambda: True,
        "_addmm_fp32": lambda total, a, b: None,
    }
    for name in [name for name in sys.modules if name.startswith("trl.")]:
        module = sys.modules[name]
        for branch in branches.keys() & module.__dict__.keys():
            setattr(module, branch, branches[branch])


def _inputs(case: dict[str, Any], ids: torch.Tensor) -> dict[str, torch.Tensor]:
    half = case["S"] // 2
    mask = torch.ones((case["B"], half), dtype=torch.int64)
    return {
        "prompt_ids": ids[:, :half],
        "prompt_mask": mask,
        "completion_ids": ids[:, half:],
        "completion_mask": mask,
        "advantages": torch.zeros(case["B"]),
        "old_logps": torch.zeros(case["B"]),
        "num_items_in_batch": mask.sum(),
    }


def _step(case: dict[str, Any], models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    (model,) = models
    trainer, inputs = trainer_of(case, model), _inputs(case, ids)
    if "half" not in case:
        _prepare(model)
    mask = torch.ones_like(ids)
    model.eval()
    if case["liger"]:
        liger.patch(model, in_place=True)
    with liger.rotary(model, case["liger"]), _OnFakeTensors(case["B"] * (case["S"] // 2)):
        tracker.begin("reference")
        with torch.no_grad():
            found = trainer._get_per_token_logps_and_entropies(model, ids, mask, case["S"] // 2, batch_size=case["B"])
        inputs["ref_per_token_logps"] = found[0]
        del found
        checkpoints.enable(model, checkpoints.Kind(False, False, False), tracker)
        model.train()
        tracker.begin("forward")
        loss = trainer.compute_loss(model, inputs)
        tracker.begin("backward")
        loss.backward()


def _prepare(model: Any) -> None:
    """What accelerate's `prepare_model` wraps around the forward (accelerate 1.15 accelerator.py, prepare_model)."""
    from accelerate.utils.operations import convert_outputs_to_fp32

    own = model.forward

    def in_autocast(self: Any, *given: Any, **named: Any) -> Any:
        with precision.autocast(torch.bfloat16):
            return own(*given, **named)

    model.forward = MethodType(lambda self, *given, **named: wide(self, *given, **named), model)
    wide = convert_outputs_to_fp32(in_autocast)


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes beside the weights at the peak of each phase."""
    return fake_step.phases(case, partial(_step, case))


def predicted(case: dict[str, Any]) -> dict[str, int]:
    return beside_the_state(estimate_of(file_of(case), case["config"], versions={"trl": tuple(case["trl"])}))


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--write", action="store_true", help="keep the simulated figures")
    asked = arguments.parse_args()
    import_trainers()
    figures = compare(cases(), simulated, predicted, _title, engine=_group)
    if asked.write:
        own = list(release())
        kept = [line for line in DATA.read_text(encoding="utf-8").splitlines() if json.loads(line)["trl"] != own]
        rows = [*kept, *figures.splitlines()]
        rows.sort(key=lambda line: json.loads(line)["trl"])
        DATA.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return 0


def _group(case: dict[str, Any]) -> str:
    return f"{case['trainer']}{' liger' if case['liger'] else ''}{' half' if 'half' in case else ''}"


def _title(case: dict[str, Any]) -> str:
    return (
        f"trl {'.'.join(map(str, case['trl']))} {_group(case):11} {case['config_class']:14} {case['B']}x{case['S']:<5}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
