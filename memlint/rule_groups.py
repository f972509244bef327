"""Groups of rules that the code tells apart, each an id (`MEM001`) or the beginning of ids (`MEM`).

A rule says what it finds in its own file below `rules/`. What a finding is about decides what else becomes of it: a
program that reads the file by itself may make it pointless, a fix may leave it behind, a command may say it better.
Use the groups with `finding.rule.startswith(GROUP)`.
"""

from __future__ import annotations

# Verdicts on the memory of a run.
OUT_OF_MEMORY = ("MEM001",)  # it is out of memory with sequences of any length
OVER_AT_FULL_LENGTH = ("MEM010",)  # only batches near the maximum length are too large
LAUNCHER_UNKNOWN = ("MEM005",)  # it is out of memory, or has no verdict, unless a launcher that nobody names shards it
TIGHT = ("MEM002",)

# There is room to spare, which a fix that frees memory may well bring: offloading is no longer needed, or a reduce
# bucket is larger than all gradients. Each has a fix of its own.
ROOM_TO_SPARE = ("OFF001", "PAR002", "PAR006")

# About the figures of a run, which depend on what launches it: shown at the command or script that starts it.
OF_FIGURES = ("MEM", "OFF", "PAR", "CKP", "LOS", "ATT", "EVA001", "EVA002", "OPT001", "SAV001", "PRE003")
# About figures that are right if a program trains exactly what its arguments say.
OF_WHAT_TRAINS = ("MEM", "EVA002", "OFF", "OPT001", "PAR00", "PAR012", "SAV001")
# About memory or a file's text: kept whatever keys a program sets.
OF_MEMORY_OR_TEXT = ("MEM", "SRC")

# About arguments and names as such. Other rules are about what a run does (its memory, its speed).
OF_ARGUMENTS = ("CFG", "DSP", "EVA", "MOD", "PEF", "SAV", "TRL", "TRN")
# About what a program may change before the framework checks it.
OF_CHANGEABLE_VALUES = (*OF_ARGUMENTS, "DAT", "OPT", "PRE")
# About a word that the framework does not know.
OF_UNKNOWN_WORDS = ("CFG003", "CFG011", "TRN019", "AXO089", "VER003", "VER004", "VER008", "VER009")
# About a value that the framework's argument classes refuse.
OF_REFUSED_VALUES = ("CFG002", "CFG003", "CFG011", "TRN019")
# About what a framework's own code checks and refuses: a copy of it may have been changed.
OF_CHECKS = ("CFG001", "CFG002", "CFG003", "CFG004", "CFG008", "CFG016", "LLF", "SWF", "VER", "ORL", "TUN", "TRL")
# About what another release of the trainer does otherwise.
OF_RELEASES = ("CFG", "EVA", "TRL", "TRN")
OF_MISSING_FILES = ("REF001",)
# About what the engine's file says against the arguments, and what transformers' Trainer makes of that file: a program
# of another class may hand it on as it is (transformers 5.23 integrations/deepspeed.py: deepspeed_init compares them).
OF_TWO_FILES = ("CFG008", "DSP001", "DSP002", "DSP016", "SAV002")

# About figures, the model and the text of the file: they hold whoever reads it. Where a name of a file leads, the
# program says.
FOR_ANY_READER = ("MEM", "EVA002", "PAR003", "SAV001", "MOD", "SRC", "CFG013")
# About YAML tags: yaml.full_load takes some, and a script may bring constructors of its own.
OF_TAGS = ("SRC005",)
# They say why a file has no run: its text cannot be read, or memlint failed.
INTERNAL_ERROR = "MEM000"  # memlint, or a plug-in, failed on the file
OF_READING = ("SRC", INTERNAL_ERROR)
