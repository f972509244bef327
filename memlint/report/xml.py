"""Escaping for the XML formats. Characters that XML 1.0 forbids are removed."""

from __future__ import annotations

from memlint.report.terminal import clean

ENTITIES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "'": "&apos;",
        "\n": "&#10;",
        "\t": "&#9;",
        "￾": "�",
        "￿": "�",
    }
)


def attribute(text: object) -> str:
    """`text` as it stands between the quotes of an attribute, or as character data."""
    return clean(str(text)).translate(ENTITIES)


def element(name: str, attributes: dict[str, object], body: str = "") -> str:
    """`<name a="b">body</name>`; `body` is markup already."""
    rendered = "".join(f' {key}="{attribute(value)}"' for key, value in attributes.items())
    return f"<{name}{rendered}>{body}</{name}>" if body else f"<{name}{rendered}/>"
