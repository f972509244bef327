"""The simulator's settings for a `Run`, and the transformers configuration of its architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.simulation.optimizers as optimizers
from memlint.architectures import from_config
from memlint.architectures.model import Architecture, DecoderLayer, Tower, parameters
from memlint.memory.estimate import with_effective_attention
from memlint.memory.loss.shape import copies_shifted_logits, keeps_logits_dtype, upcasts_logits
from memlint.memory.segments.step import liger_layers
from memlint.run import UNKNOWN, Run
from memlint.simulation.build import Adapter
from memlint.simulation.freezing import Parts, Unfrozen
from memlint.simulation.generation import GenerationSettings
from memlint.simulation.result import UnsupportedRun
from memlint.simulation.sharding import Sharding
from memlint.simulation.step import StepSettings

_PAIRED = ("dpo", "orpo", "cpo", "simpo", "ipo")
_ADAPTERS = ("lora", "dora", "oft", "ia3")


def settings(run: Run, kernel_temporaries: bool = True) -> StepSettings:
    """The step's settings. Raises UnsupportedRun for unknown values, methods and engines that are not simulated."""
    _require(run)
    lora = run.method.kind in _ADAPTERS
    compute = str(run.precision.compute)
    return StepSettings(
        micro_batch_size=_known(run.batch.micro_batch_size, "batch.micro_batch_size"),
        sequence_length=_known(run.sequence.length, "sequence.length"),
        source_length=_known(run.sequence.source_length, "sequence.source_length"),
        attention=str(with_effective_attention(run).attention.implementation or "sdpa"),
        trained="lora" if lora else run.method.kind,
        adapter=_adapter(run) if lora else None,
        unfrozen=_unfrozen(run) if run.method.kind == "freeze" else Unfrozen(),
        frozen=str(run.model.weights_dtype or compute),
        trainable=run.method.adapter_dtype if lora else str(run.precision.trainable_dtype or compute),
        autocast=compute if run.precision.autocast and compute != "float32" else "",
        outputs_to_fp32=bool(run.precision.outputs_to_fp32),
        checkpointing=_checkpointing(run),
        offloads_checkpoints=run.checkpointing.offload or run.offload.activations != "none",
        checkpoints_trainable_layers_only=run.checkpointing.skips_frozen_layers,
        optimizer=str(run.optimizer.name or "adamw_torch_fused"),
        momentum=run.optimizer.momentum,
        max_grad_norm=run.optimizer.max_grad_norm,
        accumulates=run.batch.gradient_accumulation_steps not in (1, UNKNOWN),
        keeps_outputs=run.loss.keeps_logits,
        kernel_temporaries=kernel_temporaries,
        quantized_bits=int(run.model.quantization.bits) if run.model.quantization.method == "bnb" else 0,
        double_quant=run.model.quantization.double_quant,
        expert_kernel=_expert_kernel(run),
        quantized_experts=run.model.quantization.experts_on_load,
        upcast_rest=run.model.quantization.upcast_rest_to_fp32,
        upcast_norms=run.precision.upcast_layernorm,
        vocabulary_to_bf16=run.model.quantization.vocabulary_to_bf16,
        loss=_loss(run),
        sharding=_sharding(run),
        chunk_tokens=run.loss.chunk_tokens or 256,
        upcast_head=upcasts_logits(run),
        parts=_parts(run),
        liger=liger_layers(run),
        fused_adapters=run.method.fused_adapters,
        embeddings_dtype=run.precision.embeddings_dtype,
        stage=_stage(run),
        embeddings_in_32_bits=not () < run.stack.transformers < (4, 52),
    )


def generation_settings(run: Run) -> GenerationSettings:
    """The settings of an inference run. Raises UnsupportedRun for engines that are not simulated."""
    if not run.model.architecture:
        raise UnsupportedRun("model.architecture is unknown")
    if run.parallelism.engine != "single" or not run.serving.uses_cache:
        raise UnsupportedRun(f"no simulation of requests under parallelism.engine {run.parallelism.engine!r}")
    if run.model.quantization.method not in ("none", "bnb"):
        raise UnsupportedRun(f"no simulation of {run.model.quantization.method} weights")
    sequences = _known(run.batch.micro_batch_size, "batch.micro_batch_size") * max(1, run.evaluation.num_beams)
    return GenerationSettings(
        sequences=sequences,
        prompt=_known(run.sequence.length, "sequence.length"),
        new_tokens=run.sequence.max_new_tokens or run.evaluation.max_new_tokens,
        attention=str(with_effective_attention(run).attention.implementation or "sdpa"),
        dtype=str(run.precision.compute),
        quantized_bits=int(run.model.quantization.bits) if run.model.quantization.method == "bnb" else 0,
        double_quant=run.model.quantization.double_quant,
    )


def _expert_kernel(run: Run) -> str:
    if run.stack.expert_kernel and (run.model.quantization.experts_on_load or run.method.target_parameters):
        raise UnsupportedRun("no simulation of ScatterMoE's kernels over experts that are quantised or adapted")
    return run.stack.expert_kernel


def _stage(run: Run) -> str:
    if run.method.stage not in _PAIRED:
        return "smoothed" if run.loss.label_smoothing else ""
    if run.loss.kind != "plain" or run.method.reference_model not in ("none", "precomputed", "shared"):
        raise UnsupportedRun(f"no simulation of {run.method.stage} with this loss or reference model")
    if run.loss.likelihood_of_chosen:
        if run.method.reference_model == "shared":
            raise UnsupportedRun(f"no simulation of {run.method.stage} with the likelihood of the chosen answers")
        return "preference_and_likelihood"
    return "against_reference" if run.method.reference_model == "shared" else "preference"


def _unfrozen(run: Run) -> Unfrozen:
    method = run.method
    return Unfrozen(
        layers=_known(method.freeze_trainable_layers, "method.freeze_trainable_layers"),
        spread=method.use_llama_pro,
        modules=_known(method.freeze_trainable_modules, "method.freeze_trainable_modules"),
        others=_known(method.freeze_extra_modules, "method.freeze_extra_modules"),
        patterns=method.trainable_patterns,
    )


def _towers(run: Run) -> tuple[Tower, ...]:
    return run.model.architecture.towers if run.model.architecture else ()


def _parts(run: Run) -> Parts:
    towers = tuple(dict.fromkeys(tower.tower_prefix for tower in _towers(run)))
    projectors = tuple(dict.fromkeys(tower.projector_prefix for tower in _towers(run)))
    tower_is_frozen = _known(run.method.freeze_vision_tower, "method.freeze_vision_tower")
    projectors_train = _projectors_train(run)
    return Parts(
        frozen=(towers if tower_is_frozen else ()) + (() if projectors_train else projectors),
        trained=projectors if projectors_train else (),
        vision=towers + projectors,
        freezes_language_model=_known(run.method.freeze_language_model, "method.freeze_language_model"),
    )


def _projectors_train(run: Run) -> bool:
    """Whether projectors train or get adapters. LLaMA-Factory gives them none (0.9.5 model/model_utils/misc.py:38)."""
    method = run.method
    chosen = not method.trainable_patterns and not (method.kind in _ADAPTERS and method.targets_linear_only)
    return chosen and not _known(method.freeze_multi_modal_projector, "method.freeze_multi_modal_projector")


def _require(run: Run) -> None:
    if run.purpose == "inference":
        raise UnsupportedRun("the run trains nothing, and one training step is what is simulated")
    if not run.model.architecture:
        raise UnsupportedRun("model.architecture is unknown")
    if run.method.kind not in ("full", "freeze", *_ADAPTERS):
        raise UnsupportedRun(f"no simulation of method.kind {run.method.kind!r}")
    if run.optimizer.badam_mode:
        raise UnsupportedRun("no simulation of BAdam, which trains one block of layers at a time")
    if run.stack.use_unsloth:
        raise UnsupportedRun("no simulation of Unsloth's code")
    if run.method.stage not in ("pt", "sft", *_PAIRED):
        raise UnsupportedRun(f"no simulation of method.stage {run.method.stage!r}")
    if run.model.quantization.method not in ("none", "bnb"):
        raise UnsupportedRun(f"no simulation of {run.model.quantization.method} weights")
    if run.optimizer.name not in (*optimizers.KNOWN, UNKNOWN):
        raise UnsupportedRun(f"no simulation of the optimizer {run.optimizer.name!r}")
    if run.stack.transformers < (5,) and _has_experts(run):
        raise UnsupportedRun("transformers 4 builds experts as separate layers")
    if run.precision.upcast_layernorm and not run.precision.autocast:
        raise UnsupportedRun("without autocast a projection refuses what a norm in fp32 gives it")
    if run.parallelism.engine not in ("single", "ddp", "fsdp"):
        raise UnsupportedRun(f"no simulation of parallelism.engine {run.parallelism.engine!r}")
    if run.parallelism.engine == "fsdp" and run.parallelism.fsdp.version != 2:
        raise UnsupportedRun("of FSDP only version 2 is simulated")
    if run.parallelism.engine == "fsdp" and run.parallelism.fsdp.cpu_offload:
        raise UnsupportedRun("no simulation of shards in host memory")


def _has_experts(run: Run) -> bool:
    architecture = run.model.architecture
    return bool(architecture) and any(layer.mlp.kind == "moe" for layer in architecture.layer_types)


def _known(value: Any, name: str) -> Any:
    if value is UNKNOWN:
        raise UnsupportedRun(f"{name} is unknown")
    return value


def _adapter(run: Run) -> Adapter:
    method = run.method
    return Adapter(
        rank=method.rank,
        alpha=method.alpha or 16,
        dropout=method.dropout,
        targets=method.targets or ("all",),
        exclude=method.exclude_modules,
        modules_to_save=_known(method.modules_to_save, "method.modules_to_save"),
        bias=method.bias,
        use_dora=method.use_dora or method.kind == "dora",
        use_rslora=method.use_rslora,
        rank_pattern=method.rank_pattern,
        target_parameters=method.target_parameters,
        layers_to_transform=method.layers_to_transform,
        kind="lora" if method.kind == "dora" else method.kind,
        block_size=method.oft_block_size,
        by_name=method.targets_linear_only,
    )


def _sharding(run: Run) -> Sharding:
    fsdp, engine = run.parallelism.fsdp, run.parallelism.engine
    if engine == "ddp":
        return Sharding(_known(run.parallelism.world_size, "parallelism.world_size"), replicates=True)
    if engine != "fsdp" or fsdp.strategy == "NO_SHARD":
        return Sharding()
    ranks = fsdp.shard_group_size or _known(run.parallelism.world_size, "parallelism.world_size")
    compute = str(run.precision.compute)
    return Sharding(
        ranks,
        fsdp.param_dtype or compute,
        fsdp.reduce_dtype or compute,
        fsdp.reshard_after_forward,
        reduces_last=run.batch.gradient_accumulation_steps not in (1, UNKNOWN) and not fsdp.reduces_each_backward,
        root_holds_ends=fsdp.root_holds_ends,
        embedding_apart=fsdp.embedding_apart,
    )


def _checkpointing(run: Run) -> str:
    mode = run.checkpointing.mode
    if mode in ("none", UNKNOWN):
        if run.offload.activations != "none":
            raise UnsupportedRun("no simulation of activations in host memory without checkpointing")
        return "none"
    if mode not in ("full", "unsloth"):
        raise UnsupportedRun(f"no simulation of checkpointing.mode {mode!r}")
    return "reentrant" if run.checkpointing.reentrant else "non_reentrant"


def _loss(run: Run) -> str:
    if run.loss.kind in ("plain", UNKNOWN):
        if keeps_logits_dtype(run):
            return "as_they_are"
        return "upcast" if copies_shifted_logits(run) else "plain"
    if run.loss.kind == "fused_ce":
        return "fused_ce_upcast" if copies_shifted_logits(run) else "fused_ce"
    if run.loss.kind in ("liger", "chunked", "fused_head"):
        return str(run.loss.kind)
    raise UnsupportedRun(f"no simulation of loss.kind {run.loss.kind!r}")


def configuration(architecture: Architecture) -> tuple[str, dict[str, Any]] | None:
    """(configuration class, its settings) rebuilt from an architecture with one type of layer; None if that is not
    possible or gives a different number of parameters."""
    from transformers import CONFIG_MAPPING

    if architecture.family not in CONFIG_MAPPING or len(architecture.layer_types) != 1:
        return None
    config = _config(architecture, architecture.layer_types[0])
    if parameters(from_config(config)) != parameters(architecture):
        return None
    return CONFIG_MAPPING[architecture.family].__name__, config


def _config(architecture: Architecture, layer: DecoderLayer) -> dict[str, Any]:
    config: dict[str, Any] = {
        "model_type": architecture.family,
        "architectures": [architecture.class_name],
        "hidden_size": architecture.hidden_size,
        "vocab_size": architecture.vocab_size,
        "num_hidden_layers": len(architecture.layer_type_ids),
        "num_attention_heads": layer.attention.heads,
        "num_key_value_heads": layer.attention.kv_heads,
        "head_dim": layer.attention.head_dim,
        "intermediate_size": layer.mlp.intermediate_size,
        "tie_word_embeddings": architecture.tied_embeddings,
        "max_position_embeddings": architecture.max_positions or 4096,
    }
    if layer.mlp.kind == "moe":
        config.update(
            num_experts=layer.mlp.experts,
            num_local_experts=layer.mlp.experts,
            num_experts_per_tok=layer.mlp.experts_per_token,
            moe_intermediate_size=layer.mlp.expert_intermediate_size,
        )
    return config


def named_configuration(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """(configuration class, settings) of a parsed config.json."""
    from transformers import CONFIG_MAPPING

    family = str(config.get("model_type", ""))
    if family not in CONFIG_MAPPING:
        raise UnsupportedRun(f"transformers does not know model_type {family!r}")
    return CONFIG_MAPPING[family].__name__, dict(config)
