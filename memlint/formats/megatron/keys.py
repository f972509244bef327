"""The arguments of Megatron-LM that bear on memory or on the run, read in core 0.19 (megatron/training/arguments.py).

`older` are names before 23.04.
"""

from __future__ import annotations

from memlint.formats.keys import Key, Keys
from memlint.formats.megatron import engine, model, parallel

_MODEL = (
    Key(
        *("num_layers", "whole", "model.architecture"),
        also=("model.name",),
        least=1,
        read=model.read_model,
        read_only=True,
        about="Transformer layers, those of all pipeline stages.",
    ),
    Key("hidden_size", "whole", "", least=1, read_with="num_layers", about="Width of the residual stream."),
    Key(
        *("ffn_hidden_size", "whole"),
        least=1,
        read_with="num_layers",
        about="Width of the MLP: 4 times the hidden size unless given, 8/3 of it with `swiglu`.",
    ),
    Key("num_attention_heads", "whole", least=1, read_with="num_layers", about="Heads of queries."),
    Key(
        *("group_query_attention", "flag", "", False),
        read_with="num_layers",
        about="Heads of queries share keys and values; without it `num_query_groups` has no effect.",
    ),
    Key("num_query_groups", "whole", "", 1, least=1, read_with="num_layers", about="Heads of keys and values."),
    Key("kv_channels", "whole", least=1, read_with="num_layers", about="Width of one head: hidden size over heads."),
    Key("swiglu", "flag", "", False, read_with="num_layers", about="Gated MLP, with three matrices in place of two."),
    Key("quick_geglu", "flag", "", False, read_with="num_layers", about="Another gated MLP."),
    Key(
        *("normalization", "text", "", "LayerNorm"),
        read_with="num_layers",
        about="LayerNorm, which has biases, or RMSNorm.",
    ),
    Key(
        *("untie_embeddings_and_output_weights", "flag", "", False),
        read_with="num_layers",
        about="A head of its own; without it the head is the embedding.",
    ),
    Key("disable_bias_linear", "flag", "", False, read_with="num_layers", about="Linear layers without biases."),
    Key("add_qkv_bias", "flag", "", False, read_with="num_layers", about="A bias of queries, keys and values alone."),
    Key("qk_layernorm", "flag", "", False, read_with="num_layers", about="Norms of queries and keys, head by head."),
    Key(
        *("position_embedding_type", "text", "", "learned_absolute"),
        read_with="num_layers",
        about="Learned positions are a table of `max_position_embeddings` rows; others have no parameters.",
    ),
    Key(
        *("use_rotary_position_embeddings", "flag", "", False),
        read_with="num_layers",
        about="Rotary positions, as `position_embedding_type rope`.",
    ),
    Key("no_position_embedding", "flag", "", False, read_with="num_layers", about="No learned positions."),
    Key("max_position_embeddings", "whole", least=1, read_with="num_layers", about="Rows of learned positions."),
    Key("vocab_size", "whole", least=1, read_with="num_layers", about="Words, if the tokenizer does not say."),
    Key("padded_vocab_size", "whole", least=1, read_with="num_layers", about="Rows of the embedding, as they are."),
    Key("vocab_file", "text", read_with="num_layers", about="A vocabulary: `gpt2-vocab.json` has 50257 words."),
    Key("tokenizer_type", "text", read_with="num_layers", about="Which tokenizer reads the texts."),
    Key(
        *("make_vocab_size_divisible_by", "whole", "", 128),
        least=1,
        read_with="num_layers",
        about="The embedding is padded to a multiple of this times the tensor parallel ranks.",
    ),
    Key("num_experts", "whole", least=1, read_with="num_layers", about="Routed experts of a layer."),
    Key("moe_ffn_hidden_size", "whole", least=1, read_with="num_layers", about="Width of one expert."),
    Key("moe_router_topk", "whole", "", 2, least=1, read_with="num_layers", about="Experts that a token goes to."),
    Key(
        *("moe_shared_expert_intermediate_size", "whole"),
        least=1,
        read_with="num_layers",
        about="Width of the experts that every token goes to, together.",
    ),
    Key("moe_shared_expert_gate", "flag", "", False, read_with="num_layers", about="A gate of the shared experts."),
    Key(
        *("moe_layer_freq", "any", "", 1),
        read_with="num_layers",
        about="Every n-th layer has experts, or those of a pattern such as `([0]*1+[1]*26)`.",
    ),
)
_PARALLEL = (
    Key(
        *("tensor_model_parallel_size", "whole", "parallelism.tensor_parallel_size", 1),
        also=("parallelism.data_parallel_size",),
        least=1,
        read=parallel.read_degrees,
        read_only=True,
        about="GPUs that share each matrix of a layer.",
    ),
    Key(
        *("pipeline_model_parallel_size", "whole", "parallelism.pipeline_parallel_size", 1),
        least=1,
        read_with="tensor_model_parallel_size",
        read_only=True,
        about="Stages that the layers are divided into. The first holds as many micro batches as there are stages.",
    ),
    Key(
        *("context_parallel_size", "whole", "parallelism.context_parallel_size", 1),
        least=1,
        read_with="tensor_model_parallel_size",
        read_only=True,
        about="GPUs that share each sequence.",
    ),
    Key(
        *("expert_model_parallel_size", "whole", "parallelism.expert_parallel_size", 1),
        least=1,
        read_with="tensor_model_parallel_size",
        read_only=True,
        about="GPUs that the experts of a layer are divided over.",
    ),
    Key(
        *("expert_tensor_parallel_size", "whole", "parallelism.expert_tensor_parallel_size"),
        least=1,
        read_with="tensor_model_parallel_size",
        read_only=True,
        about="GPUs that share each expert: as many as share other matrices unless given.",
    ),
    Key(
        *("decoder_first_pipeline_num_layers", "whole", "parallelism.first_stage_layers"),
        least=1,
        read_with="tensor_model_parallel_size",
        read_only=True,
        about="Layers of the first pipeline stage, where it has others than the rest.",
    ),
    Key(
        *("decoder_last_pipeline_num_layers", "whole", "parallelism.last_stage_layers"),
        least=1,
        read_with="tensor_model_parallel_size",
        read_only=True,
        about="Layers of the last one.",
    ),
    Key("sequence_parallel", "flag", "", False, about="Tensor parallel ranks divide norms and residuals, too."),
)
_BATCH = (
    Key(
        *("micro_batch_size", "whole", "batch.micro_batch_size"),
        least=1,
        read=parallel.read_micro_batch,
        read_only=True,
        about="Sequences of one forward.",
    ),
    Key(
        *("global_batch_size", "whole", "batch.gradient_accumulation_steps"),
        least=1,
        read=parallel.read_accumulation,
        read_only=True,
        about="Sequences of one step on all GPUs: micro batches, data-parallel ranks and accumulation together.",
    ),
    Key(
        *("seq_length", "whole", "sequence.length"),
        least=1,
        read=parallel.read_length,
        read_only=True,
        about="Tokens of each sequence.",
    ),
)
_ENGINE = (
    Key(
        *("bf16", "flag", "precision.compute", False),
        also=(
            *("precision.trainable_dtype", "model.weights_dtype", "precision.grad_dtype"),
            "precision.master_weights",
        ),
        read=engine.read_precision,
        read_only=True,
        about="Parameters in bf16, gradients in fp32, and fp32 parameters in the optimizer: 18 bytes a parameter.",
    ),
    Key("fp16", "flag", "", False, read_with="bf16", about="Parameters and gradients in fp16, the optimizer in fp32."),
    Key("fp8_param_gather", "flag", "", False, read_with="bf16", about="Parameters of linear layers in fp8."),
    Key(
        *("accumulate_allreduce_grads_in_fp32", "flag", "", False),
        read_with="bf16",
        about="Gradients of fp16 in fp32 as well.",
    ),
    Key("grad_reduce_in_bf16", "flag", "", False, read_with="bf16", about="Gradients in bf16."),
    Key("main_grads_dtype", "text", read_with="bf16", about="Gradients of the precision-aware optimizer."),
    Key(
        *("optimizer", "text", "optimizer.name", "adam"),
        read=engine.read_optimizer,
        read_only=True,
        about="Adam has two moments in fp32, 8 bytes a parameter.",
    ),
    Key(
        *(engine.PRECISION_AWARE, "flag", "", False),
        also=("optimizer.state_dtype", "precision.master_dtype"),
        read_with="optimizer",
        about="Fp32 parameters without the 16 bits that bf16 has, and moments in dtypes of their own.",
    ),
    Key("exp_avg_dtype", "word", "", "fp32", read_with="optimizer", about="Its first moments: fp32, bf16, fp16, fp8."),
    Key("exp_avg_sq_dtype", "word", "", "fp32", read_with="optimizer", about="Its second moments."),
    Key(
        *("use_distributed_optimizer", "flag", "parallelism.replicates_optimizer", False),
        read=engine.read_distributed,
        read_only=True,
        about="Data-parallel ranks divide fp32 parameters and moments: 6 + 12/d bytes a parameter in place of 18.",
    ),
    Key(
        *("optimizer_cpu_offload", "flag", "offload.optimizer", False),
        also=("offload.optimizer_ratio",),
        read=engine.read_offload,
        read_only=True,
        about="Optimizer states in host memory.",
    ),
    Key(
        *("optimizer_offload_fraction", "number", "", 1.0),
        least=0,
        most=1,
        read_with="optimizer_cpu_offload",
        about="The share of them that is there.",
    ),
    Key(
        *("cpu_offloading_num_layers", "whole", "offload.activations"),
        read=engine.read_activations,
        read_only=True,
        about="Layers whose activations wait in host memory.",
    ),
    Key(
        *("fine_grained_activation_offloading", "flag", "", False),
        read_with="cpu_offloading_num_layers",
        about="Activations of some modules wait in host memory.",
    ),
    Key(
        *("recompute_granularity", "word", "checkpointing.mode"),
        also=("checkpointing.every",),
        read=engine.read_recomputation,
        read_only=True,
        about="full: layers are recomputed in the backward pass; selective: attention alone.",
    ),
    Key(
        *("recompute_activations", "flag", "", False),
        read_with="recompute_granularity",
        about="`recompute_granularity selective`.",
    ),
    Key("checkpoint_activations", "flag", "", False, read_with="recompute_granularity", about="Full, before 23.04."),
    Key(
        *("recompute_method", "word"),
        older=("activations_checkpoint_method",),
        read_with="recompute_granularity",
        about="uniform: all layers, in groups that keep one input each; block: some layers of a stage.",
    ),
    Key(
        *("recompute_num_layers", "whole"),
        older=("activations_checkpoint_num_layers", "checkpoint_num_layers"),
        least=1,
        read_with="recompute_granularity",
        about="Layers of one group (uniform), or how many layers of a stage are recomputed (block).",
    ),
)

KEYS = Keys(*_MODEL, *_PARALLEL, *_BATCH, *_ENGINE)
