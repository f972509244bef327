"""The phases of reinforcement learning between two updates, on one GPU, in bytes.

A step generates completions, computes log-probabilities of the policy and of the reference in separate micro-batches,
updates the policy, and sends the new weights to the generator. An inference engine on the same card (vLLM, SGLang)
takes its share of the card while it generates, and may release it at other times. Weights and optimizer states may be
offloaded to host memory meanwhile. A value model has its own update.

Read in verl 0.9.1 (workers/engine_workers.py, update_weights: weights of the engine, the model's parameters one by one
through a bucket, then its cache) and trl 1.16 (generation/vllm_generation.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import memlint.hardware as hardware
import memlint.memory.card.device as device
import memlint.memory.generation.serving as serving
import memlint.memory.sharding.model_parallel as parallel
import memlint.memory.state.parameters as parameters
from memlint._record import NamedTuple
from memlint.hardware.model import Gpu
from memlint.memory.evaluation import forward_without_gradients
from memlint.memory.generation.completions import gathered_bytes
from memlint.memory.host import base_elements
from memlint.memory.loss.shape import LIKELIEST
from memlint.memory.phases import COMPONENTS, inputs_bytes, phase, phases
from memlint.memory.segments.step import required_count, training_step
from memlint.memory.state.model_state import place
from memlint.memory.state.parameters import MissingValue
from memlint.memory.values import Estimate, ModelState, Phase, Unit
from memlint.run import Checkpointing, Loss, Method, Parallelism, Rollout, Run, ValueModel

ENGINE = "engine"  # the component of a phase for the memory of an inference engine on the card
_HALF_BYTES = 2


class Critic(NamedTuple):
    """The value model, as if it were the only model of a run."""

    run: Run
    units: tuple[Unit, ...]
    computed: tuple[Unit, ...]
    state: ModelState


def critic(run: Run) -> Critic | None:
    """The run's value model, placed by its engine; None if it has none. Raises `MissingValue`."""
    value: ValueModel | None = run.method.value_model
    if value is None:
        return None
    own = run._replace(
        model=value.model,
        rollout=Rollout(),
        method=_critic_method(run, value),
        batch=run.batch._replace(micro_batch_size=value.micro_batch_size),
        sequence=run.sequence._replace(length=value.length or run.sequence.length),
        checkpointing=Checkpointing("full" if value.checkpointed else "none", reentrant=run.checkpointing.reentrant),
        loss=Loss("plain"),
        parallelism=_own_cards(run.parallelism, value.gpus) if value.gpus else run.parallelism,
    )
    try:
        units = parallel.shard_units(own, parameters.units(own))
    except MissingValue as missing:
        name = value.model.name if isinstance(value.model.name, str) else "the critic"
        raise MissingValue("method.value_model", f"`{name}`, which trains as the critic: {missing.reason}") from missing
    return Critic(own, units, parallel.in_compute_dtype(own, units), place(own, units))


def _own_cards(parallelism: Parallelism, gpus: int) -> Parallelism:
    """The same degrees of parallelism, over `gpus` GPUs."""
    shared = parallelism.sequence_parallel_size * parallelism.tensor_parallel_size
    return parallelism._replace(world_size=gpus, data_parallel_size=max(1, gpus // shared))


def _critic_method(run: Run, value: ValueModel) -> Method:
    """The method of the value model: full, or with an adapter like the policy's; its own head always trains."""
    if not value.trains_adapter:
        return Method(kind="full", stage="rm", reward_head="score")
    own = run.method._replace(stage="rm", reward_head="score", reference_model="none")
    return own._replace(value_model=None, extra_models=())


def at_once(updated: Phase, found: Critic, peak: Phase, run: Run) -> int:
    """Bytes that both updates may reach together if they run at the same time; 0 if they do not."""
    if not run.method.value_model.trains_at_once:
        return 0
    resting = found.state.weights + found.state.optimizer_states
    policy = updated.components["weights"] + updated.components["optimizer_states"] - resting
    return peak.allocated_bytes + updated.allocated_bytes - policy - resting


def with_critic(state: ModelState, found: Critic | None, value: ValueModel | None) -> ModelState:
    """The policy's state, plus what the value model keeps on the card outside of its own phases."""
    if found is None or value is None or value.gpus:
        return state
    weights = 0 if value.offloads_weights else found.state.weights
    states = 0 if value.offloads_optimizer else found.state.optimizer_states
    return state._replace(weights=state.weights + weights, optimizer_states=state.optimizer_states + states)


def value_update(found: Critic, policy: ModelState, run: Run) -> Phase:
    """The peak of the value model's update, plus what the policy keeps on the card meanwhile (nothing if the value
    model has its own cards)."""
    # A scalar per sample and no pairs: one sequence is one row.
    step = training_step(found.run, found.computed, sequences=_rows(found.run.batch.micro_batch_size, "critic"))
    own, _ = phases(step, found.computed, found.state)
    highest = max(own, key=lambda one: one.allocated_bytes)
    parts = dict(highest.components)
    if run.method.value_model.gpus:
        return phase("value_update", parts)
    parts["weights"] += 0 if run.rollout.offloads_weights else policy.weights
    parts["optimizer_states"] += 0 if run.rollout.offloads_optimizer else policy.optimizer_states
    return phase("value_update", parts)


def in_one_step(found: tuple[Phase, ...], learner: Critic) -> tuple[Phase, ...]:
    """The phases of a step with a joint loss of policy and value model. The value model's forward runs first, so its
    backward runs last (trl 0.22 trainer/ppo_trainer.py, PolicyAndValueWrapper)."""
    step = training_step(learner.run, learner.computed, sequences=_rows(learner.run.batch.micro_batch_size, "critic"))
    own, walk = phases(step, learner.computed, learner.state)
    others = {one.name: one.components for one in own}
    policy = {one.name: one.components for one in found}
    kept = dict.fromkeys(COMPONENTS, 0) | {"activations": walk.saved_activations}
    last = dict(others["backward"])
    last["gradients"] += policy["optimizer_step"]["gradients"]
    last |= {name: policy["backward"][name] for name in ("weights", "optimizer_states")}
    merged = {
        "forward": _sum_of_both_models(policy["forward"], kept),
        "backward": max((_sum_of_both_models(policy["backward"], kept), last), key=lambda parts: sum(parts.values())),
        "optimizer_step": _sum_of_both_models(policy["optimizer_step"], others["optimizer_step"]),
    }
    return tuple(phase(one.name, merged[one.name]) if one.name in merged else one for one in found)


def _sum_of_both_models(mine: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The components of a phase for both models. Weights and optimizer states of both are in the policy's already."""
    return {
        name: size + (0 if name in ("weights", "optimizer_states") else other.get(name, 0))
        for name, size in mine.items()
    }


def log_probabilities(run: Run, units: tuple[Unit, ...], state: ModelState) -> tuple[Phase, ...]:
    """The forwards before the update: the policy's (`log_probabilities`), the reference's (`reference`).

    `state`: weights and optimizer states of all models that stay on the card.
    """
    found = []
    away = run.rollout.offloads_optimizer and run.rollout.offloads_until_update
    waiting = state._replace(optimizer_states=0) if away else state
    if run.rollout.log_prob_micro_batch_size != 0:
        found.append(_log_probabilities(run, units, waiting))
    if run.rollout.reference_micro_batch_size != 0 and run.method.reference_model not in ("none", "precomputed"):
        found.append(_reference(run, units, waiting))
    return tuple(found)


def beside_engine(run: Run, units: tuple[Unit, ...], state: ModelState) -> tuple[Phase, ...]:
    """The phases in which an engine on the same card is awake: `rollout` and `weight_sync`.

    An engine that never sleeps has its share in every phase, outside of the model's allocator (`card.device`).
    """
    return (_rollout(run, state), _weight_sync(run, units, state)) if sleeps(run) else ()


def with_engine_beside(found: Estimate, run: Run, engine_phases: tuple[Phase, ...], woken: int) -> Estimate:
    """The estimate for a card, with the phases in which an inference engine shares it. The higher peak is taken.

    `woken`: the most that such a phase may need.

    The allocator's caches are emptied before an engine wakes (verl 0.9.1 workers/engine_workers.py:769), so these
    phases show what is allocated.
    """
    peak = max(engine_phases, key=lambda phase: phase.allocated_bytes)
    usable = device.usable_bytes(run)
    outside = device.outside_allocator(run) - device.sleeping_engine_bytes(run)
    shown = peak.allocated_bytes + outside
    most = max(shown + beyond_the_share(peak), woken + outside if woken else 0)
    least = max(one.allocated_bytes - _kept_free(run, one) for one in engine_phases) + outside
    low, high = max(least, found.device_low_bytes or 0), max(most, found.device_high_bytes or 0)
    reaches = fits_beside_engine(run, engine_phases)
    verdict = device.verdict(low, high, usable)
    own = "" if verdict == "fits" else getattr(run.hardware.gpu, "name", "")  # a card is told by what it needs at most
    known = (gpu for gpu in hardware.common() if gpu.name in found.fits_on and gpu.name != own)
    fits_on = tuple(gpu.name for gpu in known if reaches(gpu))
    found = found._replace(
        device_low_bytes=low,
        device_high_bytes=high,
        device_unclamped_high_bytes=max(found.device_unclamped_high_bytes or 0, most),
        verdict=verdict,
        fits_on=fits_on,
    )
    if shown <= (found.device_bytes or 0):
        return found
    return found._replace(
        peak_phase=peak.name,
        allocated_bytes=peak.allocated_bytes,
        reserved_bytes=peak.allocated_bytes,
        device_bytes=shown,
        allocated_low_bytes=None,
        allocated_high_bytes=None,
    )


def shortest(run: Run) -> Run | None:
    """The run with the fewest tokens that an unpadded micro-batch may have: those of one sequence of full length. With
    a limit on tokens, at least half of the limit (verl 0.9.1 utils/seqlen_balancing.py, rearrange_micro_batches:
    sequences are distributed evenly over the fewest micro-batches)."""
    length = run.sequence.length
    if not isinstance(length, int):
        return None

    def fewest(tokens: object) -> int:
        return max(length, tokens // 2) if isinstance(tokens, int) and tokens else 0

    rows = run.rollout
    batch = run.batch._replace(micro_batch_size=1, max_tokens=fewest(run.batch.max_tokens))
    value: ValueModel | None = run.method.value_model
    value = value and value._replace(micro_batch_size=1, length=fewest(value.length))
    return run._replace(
        batch=batch,
        method=run.method._replace(value_model=value),
        rollout=rows._replace(
            log_prob_micro_batch_size=1 if rows.log_prob_micro_batch_size != 0 else 0,
            log_prob_length=fewest(rows.log_prob_length),
            reference_micro_batch_size=1 if rows.reference_micro_batch_size != 0 else 0,
            reference_length=fewest(rows.reference_length),
        ),
    )


_GRAPHS = 2 << 30
_LEFT_IN_CACHES = 0.15


_MOST_SEQUENCES = 1024
_SAMPLER = 28


def _kept_free(run: Run, found: Phase) -> int:
    """The most bytes of vLLM's share that nobody has while it writes few completions: what its profile took.

    vLLM takes the peak of a forward off the cache and frees it again (vllm 0.33.0 v1/worker/gpu_worker.py:641). The
    largest part is the sampler's: for each logit of `max_num_seqs` sequences (verl 0.9.1 trainer/config/rollout: 1024)
    2 bytes and 4 in float32, 12 of the sorted ones with their places, and 10 of their probabilities, masks and result
    (v1/sample/ops/topk_topp_sampler.py). SGLang counts none of it in its share.
    """
    if found.name != "rollout" or run.rollout.share_of_free:
        return 0
    vocabulary: int = run.model.architecture.vocab_size
    return min(found.components[ENGINE], _MOST_SEQUENCES * vocabulary * _SAMPLER)


def beyond_the_share(found: Phase) -> int:
    """Bytes that the card may show beyond such a phase: CUDA graphs, and the rest in the trainer's allocator caches.

    An engine captures its graphs when its share is already full, unless its release leaves room for an estimate of
    them (vllm 0.33.0 v1/worker/gpu_worker.py:720). A log in verl-project/verl#3992 has 52.16 GB reserved for 45.14 GB
    of tensors after the caches were emptied.
    """
    own = found.allocated_bytes - found.components[ENGINE]
    return _GRAPHS + int(_LEFT_IN_CACHES * own)


def when_woken_at_once(run: Run, units: tuple[Unit, ...], state: ModelState) -> int:
    """Bytes of the card, without contexts, while an engine that takes its whole share at once gets its weights: the
    share, the trainer's state with a copy of its weights, and the largest gathered parameter. 0 for other engines."""
    if not run.rollout.wakes_at_once:
        return 0
    sync = _weight_sync(run, units, state)
    share = device.engine_share(run, run.hardware.gpu, state.weights)
    return sync.allocated_bytes - sync.components[ENGINE] - run.rollout.sync_bucket_bytes + state.weights + share


def fits_beside_engine(run: Run, found: tuple[Phase, ...]) -> Callable[[Gpu], bool]:
    """A function that tells whether a card holds the phases of `beside_engine`, even with the most they may show, and
    an engine can start in its share of it."""
    least = engine_start(run)

    def fits(gpu: Gpu) -> bool:
        writing = next(one for one in found if one.name == "rollout")
        share = device.engine_share(run, gpu, writing.components["weights"])
        on_card = run._replace(hardware=run.hardware._replace(gpu=gpu, memory_budget_bytes=0))
        outside = device.outside_allocator(on_card) - device.sleeping_engine_bytes(on_card)
        sizes = {one.name: one.allocated_bytes + beyond_the_share(one) for one in found}
        sizes["rollout"] += share - writing.components[ENGINE]
        return share >= least and max(sizes.values()) + outside <= gpu.usable_bytes

    return fits


def sleeps(run: Run) -> bool:
    """Whether an engine on the same card releases its memory while the model trains."""
    return run.rollout.generator == "vllm_colocate" and bool(run.rollout.sleep_level)


def _resident(run: Run, state: ModelState, with_weights: bool) -> dict[str, int]:
    """What the trained models hold on the card while they do not compute."""
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights if with_weights else 0
    parts["optimizer_states"] = 0 if run.rollout.offloads_optimizer else state.optimizer_states
    return parts


def _rollout(run: Run, state: ModelState) -> Phase:
    """Completions are written: the engine has its share. Without a card its bytes are not known, and not counted."""
    parts = _resident(run, state, not run.rollout.offloads_weights)
    return phase("rollout", {**parts, ENGINE: device.engine_share(run, run.hardware.gpu, parts["weights"])})


def _weight_sync(run: Run, units: tuple[Unit, ...], state: ModelState) -> Phase:
    """The phase in which the engine has its weights, but not its cache: parameters are gathered and copied one by
    one, or more at once under ZeRO-3."""
    parts = _resident(run, state, True)
    tensors = [tensor for unit in units for tensor in unit.tensors]
    gathered = max(max(tensor.stored_bytes for tensor in tensors), gathered_bytes(run, units))
    parts["temporaries"] = gathered + run.rollout.sync_bucket_bytes
    copy = 0 if run.rollout.shares_weights else engine_weights(run, units)
    return phase("weight_sync", {**parts, ENGINE: copy})


def engine_weights(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of the engine's own copy of the weights on one GPU, in half precision."""
    return _HALF_BYTES * base_elements(units) // _engine_ranks(run)


def _engine_ranks(run: Run) -> int:
    name = "rollout.tensor_parallel_size"
    return max(1, required_count(run.rollout.tensor_parallel_size, name, "say how many GPUs the engine shares"))


def awake_engine(run: Run) -> Mapping[str, int]:
    """What an engine that stays awake holds of the card while the model trains, as a component of each phase."""
    return {ENGINE: device.generator_bytes(run)}


def engine_start(run: Run) -> int:
    """Bytes of its share that an engine needs at least to start: its weights, and the keys and values of one sequence,
    in 8 bits. Without either it stops (vllm 0.33.0 v1/core/kv_cache_planning.py:50). Raises `MissingValue` where
    model or length are not known."""
    length = run.rollout.max_model_len or run.sequence.length
    tokens = required_count(length, "sequence.length", "say the longest sequence")
    ranks = _engine_ranks(run)
    cache = serving.request_elements("vllm", run.model.architecture, tokens)
    return engine_weights(run, parameters.units(run)) + cache // serving.cache_divisor(run, ranks)


_COMPUTES_WITH = (
    2 << 30
)  # activations of 8192 tokens, logits of 256 sequences and CUDA graphs: 1.3 GiB of a model of 7B


def engine_room(run: Run, sequences: int) -> int:
    """Bytes of its share with which an engine can write so many sequences of full length at once, with keys and values
    in half precision. Raises `MissingValue` where model or length are not known."""
    length = run.rollout.max_model_len or run.sequence.length
    tokens = required_count(length, "sequence.length", "say the longest sequence")
    one = _HALF_BYTES * serving.request_elements("vllm", run.model.architecture, tokens)
    cache = sequences * one // serving.cache_divisor(run, _engine_ranks(run))
    return engine_weights(run, parameters.units(run)) + _COMPUTES_WITH + cache


def _log_probabilities(run: Run, units: tuple[Unit, ...], state: ModelState) -> Phase:
    rows, length = run.rollout.log_prob_micro_batch_size, run.rollout.log_prob_length
    entropy = run.rollout.log_prob_entropy
    loss = run.loss._replace(entropy="unsaved" if entropy in ("whole", "recomputed") else entropy)
    found = _forward("log_probabilities", run._replace(loss=loss), units, state, rows, length)
    if not run.rollout.gathers_for_log_probs:
        return found
    return max(found, _gathered(found.name, units, state), key=lambda one: one.allocated_bytes)


def _gathered(name: str, units: tuple[Unit, ...], state: ModelState) -> Phase:
    """The moment in which all parameters are gathered, before the first layer's forward releases its own."""
    parts = dict.fromkeys(COMPONENTS, 0)
    parts |= {"weights": state.weights, "optimizer_states": state.optimizer_states}
    parts["temporaries"] = sum(one.stored_bytes * one.copies * unit.repeat for unit in units for one in unit.tensors)
    return phase(name, parts)


def _reference(run: Run, units: tuple[Unit, ...], state: ModelState) -> Phase:
    """The reference's forward. The policy's weights may be in host memory meanwhile."""
    away = run.rollout.offloads_weights and run.rollout.offloads_reference and run.method.reference_model != "shared"
    state = state._replace(weights=0) if away else state
    rows, length = run.rollout.reference_micro_batch_size, run.rollout.reference_length
    return _forward("reference", run._replace(loss=run.loss._replace(entropy="none")), units, state, rows, length)


def _loss_before(run: Run) -> Loss:
    """The loss whose forward comes before the update: with Liger's in the update it still builds the logits (trl 1.9
    trainer/grpo_trainer.py, _get_per_token_logps_and_entropies); a teacher's words are compared in the update alone."""
    loss = run.loss._replace(divergence="") if run.loss.divergence == LIKELIEST else run.loss
    return loss._replace(kind="plain") if loss.kind == "liger" and loss.selection else loss


def _forward(name: str, run: Run, units: tuple[Unit, ...], state: ModelState, rows: object, length: object) -> Phase:
    """A forward without gradients over `rows` sequences of `length` tokens (0: the run's)."""
    sequence = run.sequence._replace(length=length) if length != 0 else run.sequence  # type: ignore[arg-type]
    method = run.method._replace(reference_model="none")
    own = run._replace(sequence=sequence, method=method, loss=_loss_before(run))
    step = training_step(own, units, sequences=_rows(rows, name))
    peak, logits = forward_without_gradients(step, units, state)
    parts = dict.fromkeys(COMPONENTS, 0)
    parts |= {"weights": state.weights, "optimizer_states": state.optimizer_states, "logits": logits}
    parts |= {"communication": state.communication, "activations": peak - logits + inputs_bytes(step)}
    return phase(name, parts)


_ROWS = {
    "log_probabilities": "rollout.log_prob_micro_batch_size",
    "reference": "rollout.reference_micro_batch_size",
    "critic": "method.value_model",
}


def _rows(value: object, name: str) -> int:
    return max(1, required_count(value, _ROWS[name], "say how many sequences its forward takes"))
