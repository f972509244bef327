"""Scripts that are made to cost: each ends, with nothing raised and within its bounds."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.source.shell.interpreter import MOST_CALLS, MOST_INVOCATIONS, Interpreter
from memlint.source.shell.invocation import Surroundings
from memlint.source.shell.text import Word, literal

LAUNCH = "torchrun train.py --per_device_train_batch_size 4 --output_dir o --learning_rate 1 "
HOSTILE = {
    "open quotes": LAUNCH + '"abc\n' * 3_000,
    "a long line": LAUNCH + "x" * 1_000_000,
    "open substitutions": LAUNCH + "$(" * 20_000,
    "nested substitutions": LAUNCH + "$(echo " * 300 + "a" + ")" * 300,
    "here-documents": "A=$(cat <<EOF\n$A$A$A\nEOF\n)\n" * 200 + LAUNCH,
    "a text that doubles": "A=xxxxxxxxxx\n" + "A=$A$A$A$A\n" * 300 + LAUNCH + "$A",
    "an array that doubles": "A=(a b c)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 300 + LAUNCH + '"${A[@]}"',
    "many conditions": "".join(f"if foo{i}; then A{i}=1; else A{i}=2; fi\n" for i in range(800)) + LAUNCH,
    "nested loops": "for i in 1 2 3 4 5 6 7 8; do " * 20 + LAUNCH + "; done" * 20,
    "a function that calls itself": "f() { f; f; }\nf\n" + LAUNCH,
    "eval of itself": 'X="eval \\"\\$X\\""\neval "$X"\n' + LAUNCH,
    "an endless loop": f"while true; do {LAUNCH}; done",
    "a slow pattern": "A=" + "a" * 4_000 + "\nB=${A//*a*a*a*a*a*a*a*b/x}\n" + LAUNCH + "$B",
    "a slow expression": "A=" + "a" * 900 + "\n[[ $A =~ [a-z]+[a-z]+[a-z]+[a-z]+b ]] && C=1\n" + LAUNCH,
    "deep arithmetic": LAUNCH + "$((" + "(" * 5_000 + "1" + ")" * 5_000 + "))",
    "large numbers": LAUNCH + "$((2**2**2**2**2**2))$((1/0))$((9999999999*9999999999*99999999999999))",
    "bytes": LAUNCH + "\x01\x02\xff" * 1_000 + "\0",
    "deep JSON": LAUNCH + "--gradient_checkpointing_kwargs '" + "[" * 9_000 + "'",
    "many flags": LAUNCH + "".join(f"--x{i} {i} " for i in range(10_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_script_ends(name: str) -> None:
    shell = Interpreter("/repo/a.sh", Surroundings())
    shell.follow(HOSTILE[name], "/repo")

    assert len(shell.invocations) <= MOST_INVOCATIONS
    assert isinstance(in_memory({"a.sh": HOSTILE[name]}).documents("a.sh"), tuple)


def test_scripts_that_source_each_other_end() -> None:
    workspace = in_memory({"a.sh": "source b.sh\nbash a.sh\n" + LAUNCH, "b.sh": ". ./a.sh\nbash b.sh\n"})

    assert len(workspace.documents("a.sh")) == 1


def test_a_grid_follows_a_script_so_many_times() -> None:
    one = {"one.sh": LAUNCH + "--a $1 --b $2\n"}
    workspace = in_memory({"grid.sh": "for i in {1..9}; do for j in {1..9}; do bash one.sh $i $j; done; done\n", **one})

    assert len(workspace.documents("grid.sh")) <= MOST_CALLS


def test_a_job_that_submits_itself_is_followed_in_itself_once() -> None:
    """The first of such a chain tells what they all do; a script that hands itself to Slurm trains at the second."""
    chain = f"if [ $N -lt 4 ]; then sbatch a.sh $1; fi\n{LAUNCH} --seed $1\nif [ $M -lt 4 ]; then sbatch a.sh $1; fi\n"
    shell = Interpreter("/repo/a.sh", _with_itself(chain))
    shell.follow(chain, "/repo", [Word(literal("1"))])
    submits_itself = f"if [ -z $SLURM_JOB_ID ]; then sbatch $0 now; exit; fi\n{LAUNCH} --seed $1\n"
    other = Interpreter("/repo/a.sh", _with_itself(submits_itself))
    other.follow(submits_itself, "/repo")

    assert len(shell.invocations) < 20
    assert any("torchrun" in one.words[0].text for one in other.invocations)


def _with_itself(text: str) -> Surroundings:
    return Surroundings(lambda path: text, lambda path, kind: path)
