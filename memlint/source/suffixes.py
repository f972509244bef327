"""The names of shell scripts."""

from __future__ import annotations

# Shells, and jobs of Slurm, PBS and LSF, whose names no scheduler prescribes.
SHELL = (
    *(".sh", ".bash", ".zsh"),
    *(".slurm", ".sbatch", ".slrm", ".slm", ".pbs", ".qsub", ".lsf", ".job"),
)
