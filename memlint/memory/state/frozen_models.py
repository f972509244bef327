"""The other, frozen models of a run, each with its own architecture: a reference model, a reward model.

Each is loaded in its own dtype or quantisation and placed by the run's engine. LLaMA-Factory 0.9.5 loads them in
train/trainer_utils.py (create_ref_model:116, create_reward_model:151) and prepares them in train/dpo/trainer.py:89-102,
train/kto/trainer.py and train/ppo/trainer.py: ZeRO-3 and FSDP shard them as they shard the policy, other engines keep
them whole, and DeepSpeed leaves quantised ones as they are.
"""

from __future__ import annotations

import memlint.memory.sharding.model_parallel as parallel
import memlint.memory.sharding.unsharded as unsharded
import memlint.memory.state.parameters as parameters
from memlint._record import NamedTuple
from memlint.memory.evaluation import forward_without_gradients
from memlint.memory.segments.step import training_step
from memlint.memory.state.model_state import place
from memlint.memory.state.parameters import MissingValue, required
from memlint.memory.values import ModelState, Unit
from memlint.run import Method, Model, Optimizer, Run


class FrozenModel(NamedTuple):
    """A model that computes without gradients. `run`: the run as if this were its only model."""

    run: Run
    units: tuple[Unit, ...]  # in the dtype that operations read
    state: ModelState
    stays_on_card: bool = True  # False: its parameters are moved to the card layer by layer, or for its forward


def frozen_models(run: Run) -> tuple[FrozenModel, ...]:
    """The run's extra models, a named reference first.

    Raises `MissingValue` where the size of one is unknown.
    """
    others = required(run.method.extra_models, "method.extra_models", "nobody says which other models are loaded")
    found = [_frozen(run, model) for model in others]
    if (run.rollout.offloads_reference or run.rollout.swaps_reference) and run.method.reference_model == "named":
        found[0] = found[0]._replace(stays_on_card=False)
    return tuple(found)


def with_weights_of(models: tuple[FrozenModel, ...], state: ModelState) -> ModelState:
    """The state plus the weights of the frozen models."""
    weights = sum(model.state.weights + model.state.communication for model in models if model.stays_on_card)
    on_host = sum(model.state.host_bytes for model in models)
    return state._replace(weights=state.weights + weights, host_bytes=state.host_bytes + on_host)


def forward_bytes(model: FrozenModel) -> int:
    """The peak of its forward under `no_grad`, bytes, without the logits, which are counted with the loss."""
    return forward_without_gradients(training_step(model.run, model.units), model.units, model.state, head=False)[0]


def moved_bytes(model: FrozenModel) -> int:
    """The bytes of its parameters where all of them come to the card for its forward, else 0."""
    return model.state.weights if model.run.rollout.swaps_reference and not model.stays_on_card else 0


def _frozen(run: Run, model: Model) -> FrozenModel:
    """The model, placed as in a run of its own that trains nothing."""
    precision = run.precision._replace(embeddings_dtype="")
    method = Method(kind="none", stage=run.method.stage, num_generations=run.method.num_generations)
    own_run = run._replace(model=model, method=method, precision=precision, optimizer=Optimizer("sgd"))
    if run.parallelism.engine == "deepspeed" and run.method.extra_models_stage >= 0:
        zero = run.parallelism.zero._replace(stage=run.method.extra_models_stage)
        own_run = own_run._replace(parallelism=run.parallelism._replace(zero=zero))
    try:
        units = parallel.shard_units(own_run, parameters.units(own_run))
    except MissingValue as missing:
        raise MissingValue(
            "method.extra_models", f"`{model.name}`, which is loaded as well: {missing.reason}"
        ) from missing
    place_weights = place if _is_sharded(own_run) else unsharded.place
    return FrozenModel(own_run, parallel.in_compute_dtype(own_run, units), place_weights(own_run, units))


def _is_sharded(run: Run) -> bool:
    if run.parallelism.engine == "deepspeed":
        return run.parallelism.zero.stage == 3 and run.model.quantization.method == "none"
    return run.parallelism.engine == "fsdp" and run.method.fsdp_shards_extra_models
