"""What following a script gives: the words of each program, with places and with reasons for what is unknown."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.source.shell.interpreter import MOST_ROUNDS, MOST_WAYS, Interpreter
from memlint.source.shell.invocation import Invocation, Surroundings
from memlint.source.shell.state import State, Variable, merged
from memlint.source.shell.text import Word, literal

PATH = "/repo/scripts/run.sh"


def followed(text: str, files: Mapping[str, str] | None = None, gpus: int | None = None) -> list[Invocation]:
    named = dict(files or {})
    folders = {name[:index] for name in (*named, PATH) for index, letter in enumerate(name) if letter == "/"}

    def find(path: str, kind: str) -> str | None:
        there = {"file": path in named, "folder": path in folders}.get(kind, path in named or path in folders)
        return path if there else None

    shell = Interpreter(PATH, Surroundings(named.get, find, {}, gpus))
    shell.follow(text, "/repo")
    return shell.invocations


def words(text: str, files: Mapping[str, str] | None = None, gpus: int | None = None) -> list[str]:
    """The words of the one program that is called `p`."""
    found = [one for one in followed(text, files, gpus) if one.words[0].text == "p"]
    assert len(found) == 1
    return [word.text for word in found[0].words[1:]]


KNOWN = {
    "plain words": ("p a 'b c' \"d e\"", ["a", "b c", "d e"]),
    "continued lines": ("p a \\\n  --b \\\n  c", ["a", "--b", "c"]),
    "continued lines in quotes": ('A=1\nC="p \\\n  --b \\\n  ${A}/c"\n$C', ["--b", "1/c"]),
    "a variable": ('A=4\np --x $A ${A}_y "$A"z', ["--x", "4", "4_y", "4z"]),
    "two variables in a word": ("A=x\nB=y\np r/$A-$B/c", ["r/x-y/c"]),
    "a variable before an escaped letter": (
        "A=x\nB=$A\\_y\nC=$A\\_z q\np r/$A\\_b $A\\_c$A\\_d $B",
        ["r/x_b", "x_cx_d", "x_y"],
    ),
    "a split variable": ("A='--x 1  --y 2'\np $A \"$A\"", ["--x", "1", "--y", "2", "--x 1  --y 2"]),
    "a default": ("p ${V:-8} ${1:-m} ${V-9}", ["8", "m", "9"]),
    "an exported variable whose name is computed": ("N=CARDS\nexport ${N}=0,1\np $CARDS", ["0,1"]),
    "a default that is empty": ('p ${V:-} "${V:-}" a${V:-}b', ["", "ab"]),
    "a default of a default": ("B=${A:-${C:-3}}\np $B", ["3"]),
    "an alternative": ("A=1\np ${A:+yes} ${V:+no}", ["yes"]),
    "an alternative of two words": ('A=1\np ${A:+--flag "$A"}', ["--flag", "1"]),
    "an assigned default": (': "${A:=5}"\np $A', ["5"]),
    "cuts": ("A=a/b/c.tar.gz\np ${A##*/} ${A%.*} ${A%%.*} ${A#a/}", ["c.tar.gz", "a/b/c.tar", "a/b/c", "b/c.tar.gz"]),
    "replacements": ("A=a/b/c\np ${A//\\//-} ${A/b/x}", ["a-b-c", "a/x/c"]),
    "cases and parts": ("A=AbC\np ${A,,} ${A^^} ${A:1} ${A:0:2} ${#A}", ["abc", "ABC", "bC", "Ab", "3"]),
    "an array": ('A=(--x "a b")\nA+=(--y)\np "${A[@]}" ${#A[@]} ${A[1]}', ["--x", "a b", "--y", "3", "a", "b"]),
    "an empty array": ('A=()\np "${A[@]}" z', ["z"]),
    "an array, if it is set": ('A=(1 2)\np ${A[@]+"${A[@]}"}', ["1", "2"]),
    "keys": ("declare -A M=([a]=x [b]=y)\np ${M[a]} ${M[b]}", ["x", "y"]),
    "numbers of an array": ('A=(x y)\np ${!A[@]}; q "${!A[@]}"', ["0", "1"]),
    "a counting loop": ('A=(x y z)\nfor ((i=0; i<${#A[@]}; i++)); do B+="${A[$i]}$i"; done\np $B $i', ["x0y1z2", "3"]),
    "counting down": ("for ((i = 3; i > 0; --i)) do B+=$i; done\np $B $i", ["321", "0"]),
    "counting by a step": ("S=2\nfor ((i=1; i<=S*8; i*=2)); do B+=$i,; done\np $B $i", ["1,2,4,8,16,", "32"]),
    "counting by a sum": ("for ((i=0; i<9; i=i+4)); do B+=$i; done\np $B $i", ["048", "12"]),
    "a counting loop that is left": (
        "for ((i=0; i<4; i++)); do if [ $i = 2 ]; then break; fi; B+=$i; done\np $B $i",
        ["01", "2"],
    ),
    "a loop that is left": ("for i in 1 2 3; do if [ $i = 2 ]; then break; fi; done\np $i", ["2"]),
    "a counting loop that does not begin": ("B=\nfor ((i=4; i<4; i++)); do B+=$i; done\np x$B $i", ["x", "4"]),
    "loops in a loop": (
        "for ((i=0; i<2; i++)); do for ((j=i; j<2; j++)); do B+=$i$j,; done; done\np $B",
        ["00,01,11,"],
    ),
    "arithmetic": ("A=6\np $((A * 2 + 1)) $(( (A-2)/4 )) $((A > 3 ? 1 : 0)) $((2**3))", ["13", "1", "1", "8"]),
    "export": ("export A=1 B=2\np $A$B", ["12"]),
    "an if": ("A=x\nif [ $A = x ]; then B=1; else B=2; fi\np $B", ["1"]),
    "an elif": ("A=3\nif [ $A -gt 5 ]; then B=1; elif [[ $A == [0-4] ]]; then B=2; fi\np $B", ["2"]),
    "an unset variable": ('if [ -z "$A" ]; then A=d; fi\np $A', ["d"]),
    "a pattern with quotes in it": (
        'A=a-x\nif [[ "$A" == *"-y"* ]]; then B=1; elif [[ "$A" == *"-x"* ]]; then B=2; fi\np $B',
        ["2"],
    ),
    "variables side by side in quotes": ('A=a\nB="b c"\np "$A $B" "$A  ${B} $(echo d)"', ["a b c", "a  b c d"]),
    "a command in two variables": ('A="p --x 1"\nB=" --y 2 "\neval "$A $B"', ["--x", "1", "--y", "2"]),
    "a case": ("A=lora\ncase $A in full|ft) B=1;; lo*) B=2;; *) B=3;; esac\np $B", ["2"]),
    "a usage that stops": ("if [ $# -lt 1 ]; then echo usage; exit 1; fi\np ${2:-x}", ["x"]),
    "arguments that are parsed": (
        "A=1\nwhile [[ $# -gt 0 ]]; do case $1 in --a) A=$2; shift 2;; esac; done\np $A",
        ["1"],
    ),
    "arguments of a function that are parsed": (
        "f() { while (( $# )); do case $1 in --a) A=$2; shift 2;; --b) B=$2; shift 2;; *) shift;; esac; done; }\n"
        "f --b 2 --c --a 1\np $A $B",
        ["1", "2"],
    ),
    "a function": ('f() { local A=$1; p "$A" "${@:2}" $B; }\nB=z\nf x', ["x", "z"]),
    "what a function prints": ("f() { echo $(($1 * 2)); }\np $(f 4)", ["8"]),
    "what a function says beside what it prints": (
        'f() { echo "loads $1" >&2; echo a 1>&2; echo no > /dev/null; echo no &> /dev/null; echo out 2> /dev/null; }\n'
        "p $(f 4)",
        ["out"],
    ),
    "classes of letters in a pattern": (
        'A=" a[1"\ncase "$A" in [[:space:]]*\\[[[:digit:]]) B=1;; esac\np ${B:-0} "${A//[^[:alnum:]]/_}"',
        ["1", "_a_1"],
    ),
    "lines behind a long pipeline": ("true | true | true 9\nA=1\np $A 2>&1 | cat", ["1"]),
    "names of paths": ("A=a/b.sh\np $(dirname $A) $(basename $A .sh)", ["a", "b"]),
    "the script's folder": ('D="$(cd "$(dirname "$0")/.." && pwd)"\np $D/x', ["/repo/x"]),
    "counted devices": ("D=0,1,2,3\np $(echo $D | tr ',' '\\n' | wc -l) $(awk -F, '{print NF}' <<< $D)", ["4", "4"]),
    "a list that is read": ("IFS=, read -ra A <<< 1,2,3\np ${#A[@]}", ["3"]),
    "braces": ("p a{1,2}.yaml", ["a1.yaml", "a2.yaml"]),
    "eval": ('C="p --x 1"\neval $C', ["--x", "1"]),
    "a here-document that is read": ("A=$(cat <<EOF\nx\nEOF\n)\np $A", ["x"]),
    "a false condition": ("false && A=1\np ${A:-2}", ["2"]),
    "an indirect name": ("A=B\nB=3\np ${!A}", ["3"]),
    "comments inside a command": ("p --a 1 \\\n  `#--b 2` `#--c` \\\n  --d 3 `# e`", ["--a", "1", "--d", "3"]),
    "comments of several lines inside a command": (
        "p \\\n  `\n  # data: https://a.b/c\n  # more\n  ` \\\n  --a 1 \\\n\t`\n\t# x\n\t` \\\n  --b 2",
        ["--a", "1", "--b", "2"],
    ),
    "a long loop that makes arguments": (
        f'K=({" ".join(map(str, range(40)))})\nfor key in "${{K[@]}}"; do A+=("--k$key"); done\np "${{A[@]}}"',
        [f"--k{index}" for index in range(40)],
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_words_are_what_a_shell_makes(name: str) -> None:
    text, wanted = KNOWN[name]

    assert words(text) == wanted


def test_a_loop_that_starts_programs_is_followed_so_far_alone() -> None:
    found = followed(f"for i in {' '.join(map(str, range(40)))}; do p $i; done")

    assert [one.words[1].text for one in found] == [str(number) for number in range(MOST_ROUNDS)]


def test_what_a_scheduler_sets_is_set() -> None:
    shell = Interpreter(PATH, Surroundings(lambda path: None, lambda path, kind: None, {"SLURM_NNODES": "4"}, None))
    shell.follow("if [[ -v SLURM_NNODES && -n $SLURM_NNODES ]]; then N=$SLURM_NNODES; else N=1; fi\np $N", "/repo")

    assert [word.text for word in shell.invocations[0].words] == ["p", "4"]


def test_a_placeholder_is_a_word() -> None:
    """bash takes it for a file of input and one of output, and the options behind it would be lost."""
    given = "p --data <DATA_PATH> --to <your_output>/x --from <MODEL> --epochs 3 < in.txt > out.txt"

    found = words(given)

    assert found == ["--data", "<DATA_PATH>", "--to", "<your_output>/x", "--from", "<MODEL>", "--epochs", "3"]


def test_a_placeholder_of_several_words_is_one_word_behind_an_option() -> None:
    assert words("p --data <PATH TO X> --fp16 --to=<your output/dir> -n 3") == [
        *("--data", "<PATH TO X>", "--fp16", "--to=<your output/dir>", "-n", "3")
    ]
    assert words("p --fp16 in <a b c> out") == ["--fp16", "in"]
    assert words("p --data [PATH to x] --targets [q, v] -n 3") == [
        *("--data", "[PATH to x]", "--targets", "[q,", "v]", "-n", "3")
    ]


# Where the text asks for its own folder, bash answers with this machine's.
ELSEWHERE = [name for name, (text, _) in KNOWN.items() if 'dirname "$0"' not in text]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_bash_agrees(name: str) -> None:
    """The table above is true: each script is this file's own."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    text, wanted = KNOWN[name]
    stub = 'p() { printf "%s\\n" "$@"; }\n'

    done = subprocess.run([bash, "-c", stub + text], capture_output=True, text=True, check=False)

    assert [line for line in done.stdout.splitlines() if line != "usage"] == (wanted if "usage" not in text else [])


UNKNOWN = {
    "an argument": ("p $1", "argument $1"),
    "a variable of the environment": ("p $FOO", "nobody sets `FOO`"),
    "a date": ("p x_$(date)", "`date`"),
    "arithmetic on it": ("p $((FOO + 1))", "nobody sets `FOO`"),
    "the number of GPUs": ("p $(nvidia-smi -L | wc -l)", "number of GPUs"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_nobody_can_know_says_why(name: str) -> None:
    text, reason = UNKNOWN[name]
    found = [one.words[1] for one in followed(text) if one.words[0].text == "p"]

    assert all(reason in one.unknown for one in found)
    assert any(one.unknown for one in found)


def test_the_number_of_gpus_is_what_is_asked_about() -> None:
    assert words("N=$(nvidia-smi -L | wc -l)\np $((16 / N))", gpus=4) == ["4"]


GUARD = 'DATA="${2:-}"\nif [[ -z "$DATA" || -z "${OUT:-}" ]]; then echo usage; exit 1; fi\np "$DATA" ${MORE:-} end'


def test_a_script_is_followed_behind_what_it_asks_its_caller_for() -> None:
    (found,) = followed(GUARD)
    assert [(word.text, bool(word.unknown)) for word in found.words[1:]] == [("${2}", True), ("end", False)]


def test_a_machine_is_assumed_to_have_the_driver_of_its_cards() -> None:
    probe = (
        "if command -v nvidia-smi &>/dev/null; then A=gpu; elif command -v npu-smi; then A=npu; else exit 1; fi\np $A"
    )
    assert words(probe) == ["gpu"]
    assert words("if nvidia-smi; then echo 'no cards here'; exit 1; fi\np other") == ["other"]


def test_a_condition_that_nobody_can_decide_is_taken_both_ways() -> None:
    found = followed("if foo; then A=1; else A=2; fi\np $A")

    assert [one.words[1].text for one in found if one.words[0].text == "p"] == ["1", "2"]


def test_many_conditions_make_a_value_unknown() -> None:
    text = "".join(f"if foo{number}; then A{number}=1; else A{number}=2; fi\n" for number in range(MOST_WAYS)) + "p $A0"

    assert any(one.words[1].unknown for one in followed(text) if one.words[0].text == "p")


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        ("x=1 y=4", "x=2 y=4", ["x=${...}", "y=4"]),
        ("x=1 y=4", "x=2 y=4 z=9", ["x=${...}", "y=4", "${A}"]),
        ("--x 1 --y 4", "--x 2 --y 4", ["--x", "${A}"]),
        ("x=1 y=4", "w=2 y=4", ["${A}"]),
    ],
)
def test_arrays_of_two_ways_keep_the_keys_that_they_share(one: str, two: str, found: list[str]) -> None:
    ways = []
    for words_of in (one, two):
        state = State((Word(literal("run.sh")),), "/")
        state.variables["A"] = Variable(tuple(Word(literal(word)) for word in words_of.split()), True)
        ways.append(state)

    assert [word.text for word in merged(ways, 1).variables["A"].words] == found


def test_a_loop_over_words_makes_each() -> None:
    found = followed("for lr in 1 2; do p $lr; done")

    assert [one.words[1].text for one in found] == ["1", "2"]


def test_a_value_knows_where_it_is_assigned() -> None:
    text = "BATCH=${B:-16}\np --batch $BATCH"
    found = next(one for one in followed(text) if one.words[0].text == "p").words[2]

    assert found.source is not None and text[found.source.start : found.source.end] == "16"
    assert found.at is not None and text[found.at.start : found.at.end] == "$BATCH"


@pytest.mark.parametrize("head", ["i=0; i<${N}; i++", "i=0; i<99; i++", "i=0; i<2; i--", "i=0, j=1; i<2; i++", ";;"])
def test_a_counter_that_is_not_known_is_followed_once(head: str) -> None:
    """Two counters, and more rounds than are followed, are not counted either."""
    assert len(words(f"for (({head})); do p $i; break; done")) <= 1
    found = followed(f"for (({head})); do p $i; done")
    assert len(found) == 1 and found[0].words[-1].known is None


def test_sourced_files_and_scripts_that_are_called_are_followed() -> None:
    files = {"/repo/env.sh": "A=7\n", "/repo/other.sh": "p $A $1\n", "/repo/scripts/run.sh": ""}

    assert words("source env.sh\nexport A\nbash other.sh b", files) == ["7", "b"]
    assert words("source env.sh\nbash other.sh b", files) == ["${A}", "b"]


def test_scripts_that_call_each_other_end() -> None:
    files = {"/repo/a.sh": "source b.sh\nbash a.sh\n", "/repo/b.sh": "source a.sh\n"}

    assert words("source a.sh\np 1", files) == ["1"]


def test_other_scripts_are_left_aside_where_nobody_wants_them() -> None:
    files = {"/repo/other.sh": "p b\n", "/repo/env.sh": "A=7\n"}
    shell = Interpreter(PATH, Surroundings(files.get, lambda path, kind: path, follows_scripts=False))
    shell.follow("source env.sh\nbash other.sh\np $A", "/repo")
    assert [[word.text for word in one.words] for one in shell.invocations] == [["p", "7"]]


def test_wrappers_start_what_stands_behind_them() -> None:
    for start in ("srun -N 2 --ntasks=4", "nohup", "env A=1", "uv run --with x", "conda run -n e", "timeout 10m"):
        assert words(f"{start} p a") == ["a"], start
    for start in ("bash -lc", "docker run --rm --gpus all -v a:b image bash -c", "srun bash -c"):
        assert words(f"{start} 'p a'") == ["a"], start
    for start in ("tmux new-session -d -s t", "tmux new -s t -d", "screen -dmS t bash -c"):
        assert words(f"{start} 'p a'") == ["a"], start
    assert words("tmux send-keys -t t 'p a' C-m; tmux kill-session -t t; tmux attach -t t") == ["a"]


@pytest.mark.parametrize("options", ["", "--isolated ", "--isolated --extra vllm --with x ", "--frozen "])
def test_uv_takes_a_module_behind_its_own_options(options: str) -> None:
    (found,) = followed(f"uv run {options}-m a.b c=1")
    assert [word.text for word in found.words] == ["python", "-m", "a.b", "c=1"]


def test_a_module_of_what_uv_starts_is_not_uvs_own() -> None:
    (found,) = followed("uv run --with x torchrun -m a.b c=1")
    assert [word.text for word in found.words] == ["torchrun", "-m", "a.b", "c=1"]


def test_what_a_script_writes_is_kept() -> None:
    found = followed('N=2\ncat > c/ds.json <<EOF\n{"stage": $N}\nEOF\np')[-1]

    assert "".join(piece.text for piece in found.files["/repo/c/ds.json"]) == '{"stage": 2}\n'


NAMES = st.sampled_from(["A", "B", "C"])
TEXTS = st.text("abc/._-= ", max_size=6)
STATEMENTS = st.one_of(
    st.builds(lambda name, text: f"{name}='{text}'", NAMES, TEXTS),
    st.builds(lambda name, other: f'{name}="${{{other}}}x"', NAMES, NAMES),
    st.builds(lambda name, other, text: f"{name}=${{{other}:-'{text}'}}", NAMES, NAMES, TEXTS),
    st.builds(lambda name, other: f'if [ "${name}" = "${other}" ]; then {name}=1; else {other}=2; fi', NAMES, NAMES),
    st.builds(lambda name, other: f"for {name} in a b; do {other}=${{{other}}}${name}; done", NAMES, NAMES),
    st.builds(lambda name: f'case "${name}" in a*) {name}=y;; *) {name}+=n;; esac', NAMES),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STATEMENTS, max_size=6))
def test_bash_makes_the_same_words_of_generated_scripts(statements: list[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    body = "\n".join(["A=; B=; C=", *statements, 'p "$A" "$B" "$C"'])

    done = subprocess.run(
        [bash, "-c", 'p() { printf "%s|" "$@"; }\n' + body], capture_output=True, text=True, check=False
    )

    assert "".join(f"{one}|" for one in words(body)) == done.stdout


@settings(max_examples=80, deadline=None)
@given(st.text("ab$(){}[]\"'`\\|&;<>#=+*?! \n12-", max_size=60))
def test_no_text_makes_it_fail(text: str) -> None:
    for one in followed(text + "\np a\n"):
        for each in one.words:
            if each.source is not None and each.source.path == PATH:
                assert 0 <= each.source.start <= each.source.end <= len(text) + 5


def test_a_loop_that_makes_a_list_is_followed_to_its_end() -> None:
    """As a model's layers are listed: more rounds than of a loop that starts programs."""
    text = "a=()\nfor ((i=0; i<40; i++)); do if ((i < 1)); then a+=(0); else a+=(1); fi; done\n"
    assert words(text + 'printf -v F "[%s]" "$(IFS=\', \'; echo "${a[*]}")"\np $F') == [
        f"[{','.join(['0'] + ['1'] * 39)}]"
    ]


def test_what_a_loop_of_unknown_length_changes_is_not_known() -> None:
    (found,) = followed("a=x\nfor ((i=0; i<$N; i++)); do a=y; done\np $a")
    assert found.words[-1].known is None


def test_a_variable_between_brackets_and_stars_is_expanded() -> None:
    """`[0]*$N+[1]*$M`, of which the grammar makes two words and a lone dollar."""
    assert words("N=3\nM=4\np [0]*$N+[1]*$M") == ["[0]*3+[1]*4"]
