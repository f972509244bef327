"""What transformers' code of a model family does, as far as memory depends on it.

Defaults are what Llama's code does. One row a family stands in the other files of this folder (lookup.py finds it);
where no other source is given, a row's source is the family's own file in transformers 5.23
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
    """How attention is computed, and which implementations there are."""

    # Releases with `_supports_sdpa`. In others a model that is asked for sdpa raises, and one left alone runs eager
    # attention, which keeps its scores.
    sdpa: Releases = ALWAYS
    # The code does not use the attention interface: eager attention runs whatever is asked for.
    eager_only: bool = False
    # Code of the model's own repository: what its last revisions compute with sdpa, the first ones computed with eager
    # attention. Where flash-attn is installed, neither runs.
    eager_at_first: bool = False
    # Eager attention calls `softmax(scores)` without a dtype: fp32 under autocast, else that of the scores.
    softmax_keeps_dtype: bool = False
    # Releases in which it did so, until sdpa came to the family.
    softmax_kept_dtype: Releases = NEVER
    # In those releases it asked for fp32 where scores are fp16.
    softmax_upcasts_fp16: bool = False
    # A column of sinks is joined to the scores and cut off behind the softmax, all in the scores' dtype: eager
    # attention holds a second copy of the scores.
    joins_sinks: bool = False
    # Layers return their attention weights, so that checkpointing holds them and gives them a gradient of zeros.
    returns_weights: bool = False
    # The query projection is twice as wide; its second half gates attention's output, one more tensor of that width.
    gated_query: bool = False
    # Queries and keys are rotated before they are normed, so that both are kept.
    norms_after_rotary: bool = False
    # Without FlashAttention each image (or window) of a packed sequence attends on its own; results are joined.
    image_by_image: bool = False


class RotaryTraits(NamedTuple):
    """How queries and keys are rotated."""

    # They are cast to fp32 first and back afterwards: twice the size while they are rotated.
    in_fp32: bool = False
    # Cosine and sine stay fp32, and so do the products with them.
    fp32_tables: bool = False
    # What was rotated is cast back to the dtype it had; else it takes the wider dtype of cosine and sine.
    casts_back: bool = False
    # Pairs of fp32 numbers are rotated as complex ones, in one product.
    as_complex: bool = False
    # Two halves of a head, for row and column, are rotated on their own and joined.
    by_axis: bool = False
    # Layers with a window have cosine and sine of their own, with another frequency.
    apart_for_windows: bool = False


class NormTraits(NamedTuple):
    """How norms are written, and where they stand."""

    # RMSNorm multiplies by its weight before it casts back to half precision, so that the product is fp32.
    scales_in_fp32: bool = False
    # A LayerNorm written out in fp32, op by op.
    centred: bool = False
    # A layer's two norms stand behind attention and MLP instead of before them.
    after_blocks: bool = False
    # Two more norms stand before the output projection of attention and before the down projection of the MLP.
    inside_blocks: bool = False


class ExpertTraits(NamedTuple):
    """How a mixture of experts is routed, run and held."""

    # Every expert reads every token, times a score that is zero for most.
    every_expert: bool = False
    # The router's scores stay fp32, and so do the experts' results times their score.
    fp32_scores: bool = False
    # The router's product is asked for in fp32, which autocast undoes; nothing casts its scores afterwards.
    fp32_router_product: bool = False
    # Gate and up projection are clamped, and one is added to the latter: more tensors than SwiGLU keeps.
    clamps_gate: bool = False
    # Releases that hold a layer's experts in 3-D parameters; in others they are lists of linear layers.
    stacked: Releases = since(5)
    # Releases that ran stacked experts one by one, each a copy out of the stack.
    copied: Releases = NEVER
    # The lists of transformers 4 hold linear layers, which bitsandbytes quantises (4.57 models/<family>/).
    linears_in_4: bool = False
    # Names of expert projections that PEFT moves from target modules to target parameters (peft 0.21.2
    # utils/transformers_weight_conversion.py:333; transformers 5.23 conversion_mapping.py).
    peft_moves: tuple[str, ...] = ()


class LossTraits(NamedTuple):
    """The model's own cross entropy."""

    # Releases that make fp32 logits and a contiguous copy of those of all tokens but the last (up to 4.48,
    # loss/loss_utils.py, ForCausalLMLoss; from 4.49 on the labels are shifted instead).
    copies_logits: Releases = before(4, 49)
    # Releases that take the copy of the logits as they are, in the model's dtype.
    in_own_dtype: Releases = NEVER


class LigerTraits(NamedTuple):
    """What Liger kernels replace."""

    # The Trainer and TRL patch the family (liger_kernel 0.8.5 transformers/monkey_patch.py:3904,
    # MODEL_TYPE_TO_APPLY_LIGER_FN), so that the loss can be fused with the head and the logits are never whole.
    supported: bool = False
    # Liger patches decoder layers as the tape records them: RMSNorm, gated MLP and rotary embedding (liger_kernel 0.8.5
    # transformers/monkey_patch.py). In other families only the loss is counted as fused, which leaves their layers too
    # high. "in_place": norms write their gradient over the arriving one; "beside": they make a new tensor, in families
    # with a norm behind a block.
    layers: str = ""


class UnslothTraits(NamedTuple):
    """What Unsloth patches (memory/unsloth.py has the releases that were read)."""

    # Every release since 2025.4 has a forward of its own for the family (models/loader.py, dispatch_model); others run
    # code that Unsloth compiles for itself.
    own_forward: bool = False
    # A bias on queries, keys and values keeps PEFT's code for them (2025.9.11 models/llama.py:2853).
    query_bias: bool = False
    # Why the family is not modelled, in words of its own.
    not_modelled: str = ""


class PatchPath(NamedTuple):
    """How a family brings patches to tokens, in the order in which it does.

    `norm_kind`: "", layer, rms or rms_gemma. `shuffles`: copies that bring merged patches side by side, or cut the
    class token off. `straight`: linears before the activation that have none behind them.
    """

    norm_kind: str = ""
    norm_first: bool = True
    shuffles: int = 0
    pooled: bool = False
    straight: int = 0
    activation: str = "gelu"
    joined: int = 1  # copies of the features before they take the place of tokens
    reordered: bool = False
    gated: bool = False  # a product that merges patches, one more, the norm, and a gated MLP (GLM-4V)
    placed: bool = False  # patches are averaged by their places, in fp32, and padding is cut off (Gemma 4)
    last_kind: str = "layer"  # of the norm behind the layers


class VisionTraits(NamedTuple):
    """What an image-text model does with its tower's output."""

    # The way from patches to tokens; None where nobody has read it.
    path: PatchPath | None = None
    # Every patch is projected, and none are merged.
    patches_are_tokens: bool = False
    # The model takes a tower's layer by its number, and may hold the outputs of all layers while the language model
    # runs (transformers 5.23 captures the chosen ones alone: models/llava/modeling_llava.py:142,
    # `select_hidden_states`).
    holds_all_layers: bool = False
    # How many times the patches behind the tokens of a sequence may go through the tower.
    patches_per_token: float = 1
    # Why the tokens of a sequence do not bound what goes through the tower.
    unbounded: str = ""


class TowerTraits(NamedTuple):
    """What a vision tower's own code does."""

    # "computed": cosine and sine of every patch are fp32 tensors of the step; "table": the model holds them; "": none.
    rotary: str = ""
    # The class names its input embedding, so that transformers asks for a gradient there under checkpointing.
    hooks_input_embedding: bool = True
    # Layers take their input by name, which re-entrant checkpointing does not see (rule CKP004).
    input_by_name: bool = False
    # Places of tokens differ by sequence, and with them the language model's cosine and sine.
    places_by_sequence: bool = False
    # All images of a batch are joined to one sequence, with a mask between them.
    packs_images: bool = False
    # Each image is padded to as many patches as the largest has, and masked.
    pads_images: bool = False
    # The real images are taken out of a batch padded with empty ones, with a mask of their pixels.
    picks_images: bool = False
    # Positions are sampled from the table in fp32.
    samples_positions: bool = False
    # Four positions are looked up for each patch and weighted.
    interpolates_positions: bool = False
    # Patches are normed before positions are added.
    norms_first: bool = False
    # Pixels are brought side by side before the product.
    unfolds_pixels: bool = False
    # The norm behind the layers runs over all patches.
    norms_last: bool = True


class Family(NamedTuple):
    """One row: a family's code. `model_types` are names of configurations, which traits of the whole model go by
    (`sdpa`, `stacked`, `copied`, loss, liger, unsloth, vision); `classes` are beginnings of the names of layers'
    classes, which traits of a layer's own code go by. A longer beginning goes before a shorter one."""

    model_types: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    # Releases that have code for the family at all (models/ of 4.57.6 beside that of 5.23.0).
    code: Releases = ALWAYS
    attention: AttentionTraits = AttentionTraits()
    rotary: RotaryTraits = RotaryTraits()
    norm: NormTraits = NormTraits()
    # Keys, gates, and what the MLP and the state-space scan read and give are multiplied by numbers of the
    # configuration: one more tensor each.
    multiplies_projections: bool = False
    experts: ExpertTraits = ExpertTraits()
    loss: LossTraits = LossTraits()
    liger: LigerTraits = LigerTraits()
    unsloth: UnslothTraits = UnslothTraits()
    vision: VisionTraits = VisionTraits()
    tower: TowerTraits = TowerTraits()
