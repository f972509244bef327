"""The chat templates that LLaMA-Factory registers, and what is said of a name that is none of them.

`get_template_and_fix_tokenizer` raises ValueError for a name that is not registered (v0.9.5 data/template.py:639),
after the tokenizer is loaded. A fork may register more: where nobody states a release, only a slip of a known name is
reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import interpolated
from memlint.formats.llamafactory.config import LlamaFactoryConfig
from memlint.formats.schema.suggest import nearest

# Those of releases 0.9.0 to 0.9.5 (data/template.py, `register_template`), of 0.8, and of the main branch.
TEMPLATES = frozenset(
    {
        *("gpt", "moss_vl"),
        *("aeva", "alpaca", "aquila", "atom", "baichuan", "baichuan2", "bailing", "bailing_v2", "belle"),
        *("bluelm", "breeze", "chatglm2", "chatglm3", "chatml", "chatml_de", "codegeex2", "codegeex4"),
        *("cohere", "cpm", "cpm3", "cpm4", "custom", "dbrx", "deepseek", "deepseek3", "deepseekcoder"),
        *("deepseekr1", "default", "dots_ocr", "empty", "ernie", "ernie_nothink", "ernie_vl", "exaone"),
        *("falcon", "falcon_h1", "fewshot", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma4n"),
        *("glm4", "glm4_5v", "glm4_7", "glm4_moe", "glm4v", "glm_ocr", "glmz1", "gpt_oss", "granite3"),
        *("granite3_vision", "granite4", "hunyuan", "hunyuan_small", "hy3", "index", "intern", "intern2"),
        *("intern_s1", "intern_vl", "keye_vl", "kimi_vl", "lfm2", "lfm2_vl", "llama2", "llama2_zh", "llama3"),
        *("llama4", "llava", "llava_next", "llava_next_llama3", "llava_next_mistral", "llava_next_qwen"),
        *("llava_next_video", "llava_next_video_mistral", "llava_next_video_yi", "llava_next_yi", "marco"),
        *("mimo", "mimo_v2", "mimo_vl", "minicpm_o", "minicpm_v", "minicpm_v_4_6", "minimax1", "minimax2"),
        *("ministral", "ministral3", "mistral", "mistral_small", "mllama", "moonlight", "olmo", "openchat"),
        *("openchat-3.6", "opencoder", "orion", "paligemma", "paligemma_chat", "phi", "phi4", "phi4_mini"),
        *("phi_small", "pixtral", "qwen", "qwen2_audio", "qwen2_omni", "qwen2_vl", "qwen3", "qwen3_5"),
        *("qwen3_5_nothink", "qwen3_6", "qwen3_nothink", "qwen3_omni", "qwen3_omni_nothink", "qwen3_vl"),
        *("qwen3_vl_nothink", "sailor", "seed_coder", "seed_oss", "skywork_o1", "smollm", "smollm2", "solar"),
        *("starchat", "telechat", "telechat2", "vanilla", "vicuna", "video_llava", "xuanyuan", "xverse"),
        *("yayi", "yi", "yi_vl", "youtu", "youtu_vl", "yuan", "zephyr", "ziya"),
    }
)
_NEWEST = (0, 9, 5)
# What models are called, where the template has another name.
_MEANT = {
    **dict.fromkeys(("qwen2", "qwen2.5", "qwen2_5", "qwen1.5", "qwen1_5", "qwen25"), "qwen"),
    **dict.fromkeys(("llama3.1", "llama31", "llama3_1", "llama3.2", "llama3.3", "llama-3.1"), "llama3"),
    **dict.fromkeys(("qwen2.5_vl", "qwen2_5_vl", "qwen2.5-vl", "qwen25_vl"), "qwen2_vl"),
}


def template_issues(view: LlamaFactoryConfig) -> Iterator[Issue]:
    """The file's `template`, where no release has one of that name."""
    value = view.section.value.get("template")
    if not isinstance(value, str) or not value or value in TEMPLATES or interpolated(value):
        return
    guess = _MEANT.get(value.lower()) or nearest(value, TEMPLATES)
    release = view.context.versions.get("llamafactory", ())
    is_stated = bool(release) and release <= _NEWEST
    if not guess and not is_stated:
        return
    hint = f": did you mean `{guess}`?" if guess else ""
    message = f"no release of LLaMA-Factory up to 0.9.5 has a template `{value[:60]}`{hint}"
    severity = "error" if is_stated else "warning"
    yield view.section.issue("bad-value", message, "template", severity=severity, suggestion=guess)
