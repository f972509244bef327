"""What the headers of jobs request."""

from __future__ import annotations

import pytest

from memlint.repository.scripts.job_headers import job
from memlint.repository.scripts.slurm import Job

HEADERS = {
    "#SBATCH --gres=gpu:a100:4": (1, 4, "a100"),
    "#PBS -l select=2:ncpus=64:ngpus=4:gpu_type=a100\n#PBS -l place=scatter": (2, 4, "a100"),
    "#PBS -l select=2:ncpus=64:ngpus=4:gpu_type=a100": (0, 0, "a100"),  # on one host, or on two
    "#PBS -l select=1:ncpus=8:ngpus=2,walltime=1:00:00": (1, 2, ""),
    "#PBS -l nodes=2:ppn=8:gpus=4": (2, 4, ""),
    "#PBS -l ngpus=4": (1, 4, ""),
    "#PBS -l select=1:ngpus=1:gpu_model=quadro_of_ours": (1, 1, ""),
    '#BSUB -gpu "num=4:mode=exclusive_process:gmodel=NVIDIAA100_SXM4_80GB"': (1, 4, "NVIDIAA100_SXM4_80GB"),
    '#BSUB -n 8\n#BSUB -R "span[ptile=4]"\n#BSUB -gpu num=4': (2, 4, ""),
    '#BSUB -R "rusage[ngpus_excl_p=2]"': (1, 2, ""),
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_asks_for_nodes_gpus_and_a_card(header: str) -> None:
    text = f"#!/bin/bash\n{header}\ntorchrun train.py\n"
    found = job(text)

    assert found is not None
    assert (found.nodes, found.gpus, found.card) == HEADERS[header]
    assert text[found.card_at :].startswith(found.card)


@pytest.mark.parametrize(
    "header",
    [
        "#PBS -l walltime=1:00:00",
        "#PBS -l ngpus=16",  # of all machines, on some sites
        "#PBS -l select=1:ngpus=4+1:ngpus=8",
        "#PBS -l select=1:ncpus=8",
        "#BSUB -n 8",
        "# PBS -l ngpus=4",
    ],
)
def test_other_headers_ask_for_no_gpus(header: str) -> None:
    assert job(f"#!/bin/bash\n{header}\n") is None


def test_slurm_alone_tells_its_jobs_by_variables() -> None:
    of_slurm, of_pbs = job("#SBATCH --gres=gpu:4"), job("#PBS -l ngpus=4")

    assert isinstance(of_slurm, Job) and of_slurm.variables["SLURM_NNODES"] == "1"
    assert isinstance(of_pbs, Job) and not of_pbs.variables
