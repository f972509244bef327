"""What transformers' code of a model family does that memory depends on.

Defaults are what Llama's code does. The other files of this folder have one row per family, which lookup.py finds.
Without another citation, a row's source is the family's own file in transformers 5.23
(models/<family>/modeling_<family>.py).
"""

from __future__ import annotations

from memlint._record import NamedTuple

Version = tuple[int, ...]


class Releases(NamedTuple):
    """Releases of transformers: those from `since` on and before `until`. () is no bound."""

    since: Version = ()
    until: Version = ()

    def include(self, version: Version) -> bool:
        """Whether `version` is one of them; () stands for the newest release."""
        if not version:
            return not self.until
        return self.since <= version and (not self.until or version < self.until)


ALWAYS = Releases()
NEVER = Releases(until=(0,))


def since(*version: int) -> Releases:
    return Releases(since=version)


def before(*version: int) -> Releases:
    return Releases(until=version)


class AttentionTraits(NamedTuple):
    """How attention is computed, and which implementations the family has."""

    # Releases with `_supports_sdpa`. In others a model that is asked for sdpa raises, and by default it runs eager
    # attention, which saves its scores.
    sdpa: Releases = ALWAYS
    # Releases in which the last layer of each kind stores its keys and values, whether another one reads them or not.
    stores_keys: Releases = NEVER
    # The code does not use the attention interface: it runs eager attention whatever the config asks for.
    eager_only: bool = False
    # Code of the model's own repository: what its last revisions compute with sdpa, the first ones computed with eager
    # attention. Where flash-attn is installed, neither runs.
    eager_at_first: bool = False
    # Eager attention calls `softmax(scores)` without a dtype: fp32 under autocast, else that of the scores.
    softmax_keeps_dtype: bool = False
    # The weights are not cast back to the queries' dtype before their dropout.
    keeps_weights_dtype: bool = False
    # No variable holds them after their product.
    drops_weights: bool = False
    # Releases in which it did so, until sdpa came to the family.
    softmax_kept_dtype: Releases = NEVER
    # In those releases it asked for fp32 where scores are fp16.
    softmax_upcasts_fp16: bool = False
    # The mask has the dtype of the embeddings before their norm.
    mask_before_norm: bool = False
    # The mask says of each key whether it is seen, in one row for all queries.
    mask_of_keys: bool = False
    # The mask says of each pair whether it is seen, in a byte (`scores.masked_fill(mask, ...)`).
    mask_of_flags: bool = False
    # A column of sinks is concatenated to the scores and cut off after the softmax, in the dtype of the scores: eager
    # attention holds a second copy of the scores.
    concatenates_sinks: bool = False
    # Attention's result is multiplied by a number for each row, which is computed from the logsumexp of its scores.
    scales_by_sinks: bool = False
    # Layers return their attention weights, so that checkpointing holds them and makes zeros as their gradient.
    returns_weights: bool = False
    # Releases in which they did so.
    returned_weights: Releases = NEVER
    # Without checkpointing, what the layer before returned lives until the layer returns (`outputs = layer(...)`).
    holds_weights_before: bool = False
    # The query projection is twice as wide. Its second half gates the output of attention: one more tensor.
    gated_query: bool = False
    # Its output has no dropout where that of the MLP has one.
    drops_no_output: bool = False
    # Queries and keys are rotated before they are normed, so that both forms are saved.
    norms_after_rotary: bool = False
    # Norms of queries and keys are LayerNorms.
    layer_norm_of_heads: bool = False
    # Every score has a bias by the distance of its tokens, one for each head, that layers share. What sdpa's kernels
    # save of it depends on the kernel: between nothing and what eager attention saves.
    position_bias: bool = False
    # Each layer looks up biases of its own.
    own_position_bias: bool = False
    # Eager attention takes the larger of each score and the least number of its dtype, and saves both.
    clamps_scores: bool = False
    # Eager attention adds its product to zeros in the queries' dtype, which a variable holds until it returns.
    adds_to_zeros: bool = False
    # Eager attention keeps a name for its scores until it returns.
    holds_scores: bool = False
    # An encoder adds a bias of each sequence, head and pair of tokens to the scores of all layers, in place.
    bias_of_encoder: bool = False
    # Without FlashAttention each image (or window) of a packed sequence attends on its own; outputs are concatenated.
    image_by_image: bool = False
    # Keys and values are copied to all heads before any kernel reads them, which then saves the copies.
    expands_kv_heads: bool = False


class RotaryTraits(NamedTuple):
    """How queries and keys are rotated."""

    # Both are cast to fp32 before the rotation and back afterwards.
    in_fp32: bool = False
    # Each factor is cast to fp32 for its product alone (`q.float() * cos`), and the result back.
    factors_in_fp32: bool = False
    # Each layer makes fp32 tables of its own, with every number of the model's twice, and keeps them.
    spreads_tables: bool = False
    # Each layer casts the tables of each sequence to fp32, and keeps the copies.
    casts_tables: bool = False
    # Queries are rotated by a call of their own, and done when keys are projected or rotated.
    one_by_one: bool = False
    # Cosine and sine stay fp32, and so do the products with them.
    fp32_tables: bool = False
    # The result is cast back to the input's dtype. Else it has the wider dtype of cosine and sine.
    casts_back: bool = False
    # Pairs of fp32 numbers are rotated as complex ones, in one product.
    as_complex: bool = False
    # Each sequence has tables of its own, though all have the same positions.
    tables_by_sequence: bool = False
    # The two halves of a head, for row and column, are rotated separately and concatenated.
    by_axis: bool = False
    # Layers with a sliding window have their own cosine and sine, with another frequency.
    separate_for_windows: bool = False
    # Cosine and sine of every position that the model may have are a buffer in fp32, one of the "model", or one of each
    # of its "layers"; "": those of the sequence alone.
    whole_tables: str = ""


class NormTraits(NamedTuple):
    """How norms are computed, and where a layer has them."""

    # RMSNorm multiplies by its weight before it casts back to half precision, so that the product is fp32.
    scales_in_fp32: bool = False
    # RMSNorm multiplies its input by the fp32 root, not the fp32 copy whose mean it takes: both are kept.
    multiplies_input: bool = False
    # A LayerNorm written out in fp32, op by op.
    centred: bool = False
    # A layer norms the outputs of attention and MLP instead of their inputs.
    after_blocks: bool = False
    # A layer norms the sums of the residual stream with the outputs of attention and MLP, so that no norm follows the
    # last layer.
    after_sums: bool = False
    # Two more norms: before the output projection of attention and before the down projection of the MLP.
    inside_blocks: bool = False
    # LayerNorm casts its input and weight to the dtype of autocast, and runs in that.
    in_autocast_dtype: bool = False
    # The code's variables hold the first norm's output while the MLP runs.
    holds_first_norm: bool = False
    # They hold that of attention.
    holds_attention: bool = False
    # They hold the second norm's output until the MLP's is added.
    holds_second_norm: bool = False


class RouterTraits(NamedTuple):
    """How a mixture of experts chooses them."""

    # The hidden state and the weight are cast to fp32 for their product, which saves both. Autocast casts them back.
    fp32_product: bool = False
    # Autocast is off for it.
    leaves_autocast: bool = False
    # The dtype of softmax or sigmoid: "fp32"; "product", that of the product; or "autocast", that unless autocast is
    # on (a softmax without a dtype).
    scores: str = "fp32"
    # The dtype of what multiplies the experts' results: that of "scores", of the "product", or of the "input".
    result: str = "product"
    # Experts are chosen by the product. Only their scores are computed.
    chosen_first: bool = False
    # Scores are divided by their sum, out of place: fp32 under autocast, which sums in fp32.
    divides: bool = False


class ExpertTraits(NamedTuple):
    """How a mixture of experts is routed, computed and stored."""

    router: RouterTraits = RouterTraits()
    # Shared experts run before the routed ones, so that what they save is there beside theirs.
    shared_first: bool = False
    # Every expert computes every token, times a score that is zero for most.
    every_expert: bool = False
    # Gate and up projection are clamped, and 1 is added to the latter: more tensors than SwiGLU saves.
    clamps_gate: bool = False
    # Stacks are (experts, inputs, outputs), as their product reads them; others are read through a transposed view.
    inputs_first: bool = False
    # Releases that hold a layer's experts in 3-D parameters; in others they are lists of linear layers.
    stacked: Releases = since(5)
    # Releases that ran stacked experts one by one, on a copy of each expert's weight.
    copied: Releases = NEVER
    # The lists of transformers 4 hold linear layers, which bitsandbytes quantises (4.57 models/<family>/).
    linears_in_4: bool = False
    # Names of expert projections for which PEFT turns target modules into target parameters (peft 0.21.2
    # utils/transformers_weight_conversion.py:333; transformers 5.23 conversion_mapping.py).
    peft_stacked_targets: tuple[str, ...] = ()
    # DeepSpeed gathers the block of router and experts as one from 0.18.1 on (0.19.8 runtime/zero/
    # leaf_module_config.py:11, DEFAULT_LEAF_MODULE_CLASSES).
    zero3_leaf: bool = False


class LossTraits(NamedTuple):
    """The model's own cross entropy."""

    # Releases that make fp32 logits and a contiguous copy of those of all tokens but the last (up to 4.48,
    # loss/loss_utils.py, ForCausalLMLoss; from 4.49 on the labels are shifted instead).
    copies_logits: Releases = before(4, 49)
    # Releases whose copy of the logits stays in the model's dtype.
    in_own_dtype: Releases = NEVER
    # A buffer is added to the logits, in the dtype that the model is loaded in.
    adds_bias: bool = False
    # The head's input is multiplied by a number.
    scales_input: bool = False
    # Labels are of the tokens themselves, not of the next ones: no logits are left out.
    shifts: bool = True


class LigerTraits(NamedTuple):
    """What Liger kernels replace."""

    # The Trainer and TRL patch the family (liger_kernel 0.8.5 transformers/monkey_patch.py:3904,
    # MODEL_TYPE_TO_APPLY_LIGER_FN), so that the loss can be fused with the head and the logits are never whole.
    supported: bool = False
    # Liger patches RMSNorm, gated MLP and rotary embedding, as the tape records them (liger_kernel 0.8.5
    # transformers/monkey_patch.py). In other families only the loss counts as fused, so that their layers are
    # overestimated. "in_place": norms write their gradient over the incoming one. "out_of_place": they allocate it, in
    # families with a norm after a block.
    layers: str = ""


class UnslothTraits(NamedTuple):
    """What Unsloth patches (memory/unsloth.py has the releases that were read)."""

    # Every release since 2025.4 has its own forward for the family (models/loader.py, dispatch_model). For other
    # families Unsloth compiles transformers' code.
    own_forward: bool = False
    # Queries, keys and values have a bias, so that PEFT's code runs for them (2025.9.11 models/llama.py:2853).
    query_bias: bool = False
    # The attention of the least and of the most memory, where Unsloth replaces that of transformers.
    attention: tuple[str, str] | None = None
    # Its 4-bit copies on the Hub hold each expert's matrices by themselves, packed.
    packs_experts: bool = False


class PatchPath(NamedTuple):
    """The operations of a family from the tower's patches to the language model's tokens, in their order.

    `norm_kind`: "", layer, rms or rms_gemma. `shuffles`: copies that put merged patches side by side, or that leave
    out the class token. `linears_before_activation`: how many leading linears have no activation after them.
    """

    norm_kind: str = ""
    norm_first: bool = True
    shuffles: int = 0
    pooled: bool = False
    linears_before_activation: int = 0
    activation: str = "gelu"
    feature_copies: int = 1  # copies of the features before they replace the embeddings of image tokens
    reordered: bool = False
    gated: bool = False  # a product that merges patches, one more, the norm, and a gated MLP (GLM-4V)
    pools_by_position: bool = False  # patches are averaged by position, in fp32, and padding is dropped (Gemma 4)
    last_kind: str = "layer"  # of the norm after the layers


class VisionTraits(NamedTuple):
    """What an image-text model does with its tower's output."""

    # From patches to tokens; None where that code is not modelled.
    path: PatchPath | None = None
    # Every patch is projected; patches are not merged.
    patches_are_tokens: bool = False
    # The model selects a layer of the tower by its number, and may hold the outputs of all layers while the language
    # model runs (transformers 5.23 captures the chosen ones alone: models/llava/modeling_llava.py:142,
    # `select_hidden_states`).
    holds_all_layers: bool = False
    # How many times the tower may encode the patches of a sequence's tokens.
    patches_per_token: float = 1
    # Why the tokens of a sequence do not bound what the tower encodes.
    unbounded: str = ""
    # The forward hands the whole model's `use_cache` to the language model. Else the language model reads that of its
    # own configuration, True by default, since the Trainer only switches off the whole model's (5.23 trainer.py:646).
    passes_use_cache: bool = False
    # Training without the kind of each token (text, image) raises.
    needs_token_types: bool = False


class TowerTraits(NamedTuple):
    """What a vision tower's own code does."""

    # "computed": each step computes cosine and sine of every patch in fp32; "table": the model stores them; "": none.
    rotary: str = ""
    # The class names its input embedding, so that transformers makes its output require a gradient under
    # checkpointing.
    hooks_input_embedding: bool = True
    # Layers take their input as a keyword argument, which reentrant checkpointing does not see (rule CKP004).
    input_by_name: bool = False
    # Position ids differ by sequence, and with them the language model's cosine and sine.
    positions_differ_by_sequence: bool = False
    # All images of a batch are one sequence, with a mask between them.
    packs_images: bool = False
    # Each image is padded to the number of patches of the largest, with a mask.
    pads_images: bool = False
    # The real images are copied out of a batch padded with empty ones, with a mask of their pixels.
    drops_empty_images: bool = False
    # Positions are sampled from the table in fp32.
    samples_positions: bool = False
    # Four positions are looked up for each patch and weighted.
    interpolates_positions: bool = False
    # Patches are normed before positions are added.
    norms_first: bool = False
    # The pixels of a patch are copied into one row before the product.
    unfolds_pixels: bool = False
    # The norm after the layers runs over all patches.
    norms_last: bool = True


class Family(NamedTuple):
    """What one family's code does.

    `model_types`: the configurations' `model_type`, which selects traits of the whole model (`sdpa`, `stacked`,
    `copied`, loss, liger, unsloth, vision). `classes`: prefixes of the names of layer classes, which select traits of a
    layer's code; the longest prefix wins.
    """

    model_types: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    # Releases that implement the family (models/ of 4.57.6, 5.23.0 and 5.24.0).
    code: Releases = ALWAYS
    attention: AttentionTraits = AttentionTraits()
    rotary: RotaryTraits = RotaryTraits()
    norm: NormTraits = NormTraits()
    # The embedded tokens are multiplied by a number outside of the embedding's module.
    scales_after_embedding: bool = False
    # The residual stream is fp32 from the first layer on, whatever the embedding's dtype.
    fp32_residual: bool = False
    # Dropout follows attention, not the MLP.
    drops_attention_alone: bool = False
    # The MLP drops what its last projection reads.
    drops_inside_mlp: bool = False
    # It casts that to the dtype of the projection's weight.
    casts_inside_mlp: bool = False
    # A layer computes its MLP itself, so that the normed input is gone once the first projection has read it.
    computes_mlp_itself: bool = False
    # A buffer says of every position which others it may see, whatever the length of a sequence: one of the "model", or
    # one of each of its "layers".
    causal_buffer: str = ""
    # Its numbers have the dtype that the model is loaded in; else a byte each.
    causal_buffer_in_dtype: bool = False
    # Dropout follows the norm after the last layer.
    drops_last_norm: bool = False
    # The outputs of attention and MLP are multiplied by a number before they join the residual stream.
    scales_branches: bool = False
    # A layer multiplies its output in place by a number.
    scales_output: bool = False
    # Keys, gates, and the inputs and outputs of the MLP and the state-space scan are multiplied by numbers of the
    # configuration: one more tensor each.
    multiplies_projections: bool = False
    experts: ExpertTraits = ExpertTraits()
    loss: LossTraits = LossTraits()
    liger: LigerTraits = LigerTraits()
    unsloth: UnslothTraits = UnslothTraits()
    vision: VisionTraits = VisionTraits()
    tower: TowerTraits = TowerTraits()
