"""Layer classes that TRANSFORMER_BASED_WRAP may name, for what a misspelt one was meant to be."""

from __future__ import annotations

from memlint.formats.schema.suggest import distance, nearest, normal

# Those that decoder models of transformers 5.23.0 name in `_no_split_modules`; not all of them.
LAYER_CLASSES = (
    *("LlamaDecoderLayer", "Qwen2DecoderLayer", "Qwen2MoeDecoderLayer", "Qwen3DecoderLayer"),
    *("Qwen3MoeDecoderLayer", "MistralDecoderLayer", "MixtralDecoderLayer", "GemmaDecoderLayer"),
    *("Gemma2DecoderLayer", "Gemma3DecoderLayer", "PhiDecoderLayer", "Phi3DecoderLayer"),
    *("DeepseekV2DecoderLayer", "DeepseekV3DecoderLayer", "GptOssDecoderLayer", "OlmoDecoderLayer"),
    *("Olmo2DecoderLayer", "OPTDecoderLayer", "FalconDecoderLayer", "CohereDecoderLayer"),
    *("Cohere2DecoderLayer", "GraniteDecoderLayer", "StableLmDecoderLayer", "GlmDecoderLayer"),
    *("Glm4DecoderLayer", "Llama4TextDecoderLayer", "Qwen2VLDecoderLayer", "Starcoder2DecoderLayer"),
    *("JambaAttentionDecoderLayer", "GPTNeoXLayer", "GPT2Block", "GPTJBlock", "GPTNeoBlock", "BloomBlock"),
    *("MptBlock", "CodeGenBlock", "MambaBlock", "DbrxBlock", "T5Block"),
)


def meant_layer(name: str) -> str:
    """The layer class that `name` is a slip of; "" for one that may well exist: new models have new prefixes."""
    guess = "" if name in LAYER_CLASSES else nearest(name, LAYER_CLASSES)
    if not guess or normal(guess) == normal(name):
        return guess
    return "" if name.endswith(("DecoderLayer", "Block")) or distance(name, guess, 3) > 2 else guess
