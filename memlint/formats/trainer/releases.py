"""Which releases of transformers and TRL a Trainer file is for: those stated, else what its keys give away."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.base import Context
from memlint.formats.fields import Section
from memlint.formats.versions import Evidence, Version, evidence
from memlint.run import Origin
from memlint.source.document import Document

# TRL's releases before 0.27 are older than transformers 5.0 (both January 2026).
_TRL_WITH_TRANSFORMERS_5: Version = (0, 27)


# TRL's releases, newest first, and the oldest transformers that the packaging of each takes (setup.py, setup.cfg and
# pyproject.toml of every tag): what a release before that can stand beside.
_TRL_NEEDS: tuple[tuple[Version, Version], ...] = (
    ((0, 22), (4, 56, 1)),
    ((0, 20), (4, 55)),
    ((0, 19), (4, 53, 2)),
    ((0, 18), (4, 51)),
    ((0, 17), (4, 50)),
    ((0, 11), (4, 46)),
    ((0, 10), (4, 40)),
)


# Keys and the first release of TRL whose argument classes have them: trl 0.16.1 to 0.29.0, trainer/*_config.py, every
# minor release.
_TRL_FIRST_WITH: Mapping[Version, tuple[str, ...]] = {
    (0, 17): ("mask_truncated_completions", "num_completions_to_print", "wandb_log_unique_prompts"),
    (0, 18): ("activation_offloading", "generation_batch_size", "steps_per_generation", "vllm_mode"),
    (0, 19): ("assistant_only_loss", "chat_template_path", "packing_strategy"),
    (0, 20): ("importance_sampling_level", "loss_weights", "top_entropy_quantile", "use_transformers_paged"),
    (0, 21): ("lora_target_parameters", "vllm_model_impl"),
    (0, 23): ("dtype", "vllm_enable_sleep_mode", "vllm_importance_sampling_correction"),
    (0, 25): ("cast_lm_head_to_fp32",),
    (0, 26): (
        "num_generations_eval",
        "use_bias_correction_kl",
        "vllm_importance_sampling_mode",
        "vllm_max_model_length",
    ),
    (0, 27): ("multi_objective_aggregation", "off_policy_mask_threshold"),
}


def stale_pin(document: Document, context: Context) -> str:
    """The condition under which the repository's pin of TRL says what runs: that it takes a key of the file, which only
    newer releases have in an argument class (TrlParser refuses it else). "" where nothing speaks against the pin."""
    stated, pin = context.versions.get("trl"), context.version_origins.get("trl")
    if not stated or pin is None or not pin.detail.startswith("pinned in") or not isinstance(document.value, dict):
        return ""
    own = document.start.accepted.defined if document.start is not None else frozenset()
    newer = {key for since, keys in _TRL_FIRST_WITH.items() if stated < since for key in keys}
    found = min((document.value.keys() & newer) - own, default="")
    return f"trl {_text(stated)} runs, as {pin.detail.removeprefix('pinned in ')} says, with `{found}`" if found else ""


def trainer_versions(
    section: Section, schema: str, stated: Mapping[str, Version], is_trl: bool, oldest: Version = ()
) -> tuple[dict[str, Version], dict[str, Origin]]:
    """Versions by framework for a Trainer file, stated or given away, and the origins of those given away.

    `oldest`: the transformers that first has the model's family. What gives an older one away is no evidence: something
    else takes that key.
    """
    found = evidence(section, schema, ("transformers", "trl") if is_trl else ("transformers",))
    _add_what_is_given(found, section)
    if oldest >= (5,):
        least = {"transformers": oldest, "trl": _TRL_WITH_TRANSFORMERS_5}
        found = {name: one for name, one in found.items() if one.version >= least[name]}
    trl = found.get("trl")
    if trl and trl.version < _TRL_WITH_TRANSFORMERS_5:
        own = found.get("transformers")
        if own is None or own.version > (4, 57):
            detail = f"trl {_text(trl.version)} is older than transformers 5"
            found["transformers"] = Evidence((4, 57), trl.key, trl.origin._replace(detail=detail))
    unstated = {name: one for name, one in found.items() if name not in stated}
    if is_trl and "trl" not in stated and "transformers" in stated:
        unstated.update(_trl_for(stated["transformers"], unstated.get("trl")))
    versions = {**stated, **{name: one.version for name, one in unstated.items()}}
    return versions, {name: one.origin for name, one in unstated.items()}


def _add_what_is_given(found: dict[str, Evidence], section: Section) -> None:
    """The newest releases that take what a program gives them, where no key says an older one."""
    start = section.document.start
    for framework, (version, name) in (start.program.newest if start is not None else {}).items():
        if framework not in found or version < found[framework].version:
            origin = Origin("inferred", detail=f"the newest {framework} that takes the program's `{name}`")
            found[framework] = Evidence(version, name, origin)


def newest_trl_for(transformers: Version) -> Version:
    """The newest TRL whose packaging takes a stated transformers; () where the newest of all does."""
    bounds = _too_new(transformers)
    return bounds[-1][0] if bounds else ()


def _too_new(transformers: Version) -> list[tuple[Version, Version]]:
    return [(release, need) for release, need in _TRL_NEEDS if transformers < need[: len(transformers)]]


def _trl_for(transformers: Version, known: Evidence | None) -> dict[str, Evidence]:
    """The newest TRL whose packaging takes a stated transformers, where that is older than `known` and the newest."""
    bounds = _too_new(transformers)
    if not bounds or (known is not None and known.version <= bounds[-1][0]):
        return {}
    release, need = bounds[-1]
    detail = f"newer releases of trl need transformers {_text(need)}"
    return {"trl": Evidence(release, "", Origin("inferred", detail=detail))}


def _text(version: Version) -> str:
    return ".".join(map(str, version))
