"""Reports whose every text tries to get out of the format that carries it."""

from __future__ import annotations

from memlint.card_bytes import CardBytes
from memlint.findings import Edit, Finding, Fix, Location, Patch
from memlint.memory.values import Assumption, Estimate, Phase, UnknownField
from memlint.report.model import FileReport, HardwareFacts, ModelFacts, Report, RuleFacts, RunReport

GIB = 2**30
ATTACKS = {
    "github command": "x\n::error file=a.yaml,line=1::owned\r\n::stop-commands::y\n  ::add-mask::z %0A %25",
    "ansi": "\x1b[2J\x1b[31mred\x1b]8;;http://evil\x1b\\link \x9b31m",
    "script": "</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)>",
    "cdata": "]]> <![CDATA[ & &amp; < > \" '",
    "surrogate": "half \ud800 and \udfff pair \U0001f600",
    "newlines": "a\nb\r\nc\x85d\u2028e\u2029f\tg",
    "bidi": "\u202egnp.exe\u2066x\u2069 \u200f \u061c",
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f\ufffe\uffff",
    "markdown": "**b** [l](javascript:x) ![i](x) `c` | cell | <b> @everyone #1 ~~s~~ \\",
    "slots": "@DATA@ @SCRIPT@ @STYLE@ @SCRIPT_HASH@ {0} %s ${x}",
}


def place(text: str, line: int = 3) -> Location:
    path = "dir/" + text.replace("/", "_").replace("\0", "") + ".yaml"
    return Location(path, line, 2, line, 9, 10, 17, ("a/b", 0, "c~d", text))


def finding(text: str, severity: str = "error") -> Finding:
    here = place(text)
    fix = Fix(
        f"change {text}",
        (Edit(here.path, ("a", 0), "set", text),),
        {"batch.micro_batch_size": 1, text: float("nan")},
        True,
        1.2,
        "low",
        CardBytes(90 * GIB, 85 * GIB, 95 * GIB, 95 * GIB, 80 * GIB),
        CardBytes(70 * GIB, 66 * GIB, 74 * GIB, 74 * GIB, 80 * GIB),
        "fits",
        text,
        (Patch(here.path, 2, 5, text),),
    )
    return Finding(
        "MEM001",
        "memory/over-the-card",
        severity,
        f"needs {text}",
        here,
        ((place(text, 7), f"because {text}"),),
        "high",
        f"why {text}",
        (fix,),
        f"MEM001:{text}",
        {"bytes": 5, text: [text, {"x": float("inf")}]},
    )


def run(text: str) -> RunReport:
    components = {"weights": 40 * GIB, "activations": 20 * GIB, "logits": 10 * GIB}
    phases = (Phase("forward", 70 * GIB, components), Phase("backward", 60 * GIB, {"weights": 60 * GIB}))
    estimate = Estimate(
        phases,
        "forward",
        70 * GIB,
        71 * GIB,
        72 * GIB,
        70 * GIB,
        82 * GIB,
        5 * GIB,
        "tight",
        8 * 10**9,
        10**6,
        budget_bytes=79 * GIB,
        fits_on=("H200",),
        assumptions=(Assumption("sequence.length", text, f"{text}:1:1"),),
        unknown=(UnknownField("batch.micro_batch_size", text),),
    )
    return RunReport(
        place(text).path,
        "llamafactory",
        (text,),
        ModelFacts(text, "catalog", 8 * 10**9, 10**6),
        HardwareFacts("A100-80GB", 8, 80 * GIB, 79 * GIB),
        estimate,
        summary=text,
    )


def report(text: str) -> Report:
    items = (finding(text), finding(text + "2", "warning"), finding(text + "3", "info"))
    files = tuple(
        FileReport(
            item.location.path, "llamafactory", (item,), (run(text),), 1, 2, {item.location.path: f"{text}\n" * 9}
        )
        for item in items
    )
    rules = (
        RuleFacts("MEM001", "memory/over-the-card", f"title {text}", "error", f"why {text}", "", "memory", (text,)),
    )
    return Report(files, rules, "0.1.0", notes=(text,), statistics=True, overview=True)
