"""The chat templates that LLaMA-Factory registers: which take images, and what is said of a name that is none of them.

`get_template_and_fix_tokenizer` raises ValueError for a name that is not registered (v0.9.5 data/template.py:639),
after the tokenizer is loaded. A fork may register more: where nobody states a release, a name that is no slip of a
known one is information, and nothing where a copy of LLaMA-Factory is in the repository.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import Fields, interpolated
from memlint.formats.llamafactory.config import LlamaFactoryConfig, has_copy
from memlint.formats.llamafactory.families import IMAGE_TEMPLATES, MEANT_TEMPLATES, NEWER_TEMPLATES, TEMPLATES
from memlint.formats.schema.suggest import nearest
from memlint.formats.vision_towers import has_no_images
from memlint.source.placeholders import is_placeholder

_NEWEST = (0, 9, 5)


def read_images(fields: Fields, view: LlamaFactoryConfig) -> None:
    """Set that no sample has an image where the file's template takes none. Up to 0.8 `visual_inputs` said it."""
    template = view.section.value.get("template")
    if not isinstance(template, str) or view.versions["llamafactory"] < (0, 9):
        return
    if template in TEMPLATES - IMAGE_TEMPLATES:
        origin = view.section.origin("template")
        has_no_images(fields, origin)
        fields.put("sequence.always_has_images", False, origin)


def template_issues(view: LlamaFactoryConfig) -> Iterator[Issue]:
    """The file's `template`, where no release has one of that name."""
    value = view.section.value.get("template")
    if not isinstance(value, str) or not value or value in TEMPLATES:
        return
    if interpolated(value) or is_placeholder(value):
        return  # `<your template>`: somebody fills it in
    if value in NEWER_TEMPLATES and view.context.versions.get("llamafactory", ()) > _NEWEST:
        return
    theirs = view.context.repository.chat_templates()
    if value in theirs:
        return
    guess = "" if value in NEWER_TEMPLATES else MEANT_TEMPLATES.get(value.lower()) or nearest(value, TEMPLATES)
    release = view.context.versions.get("llamafactory", ())
    is_stated = bool(release) and release <= _NEWEST
    if not guess and has_copy(view.context) and not theirs:
        return
    hint = f": did you mean `{guess}`?" if guess else "" if is_stated else "; later ones, or a fork, may"
    message = f"no release of LLaMA-Factory up to 0.9.5 has a template `{value[:60]}`{hint}"
    severity = "error" if is_stated else "warning" if guess else "info"
    yield view.section.issue("bad-value", message, "template", severity=severity, suggestion=guess)
