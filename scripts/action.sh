#!/usr/bin/env bash
# The steps of action.yml. Inputs come as environment variables and are only ever used as quoted words, so that no
# input can become a command. Runs wherever the runner does: bash, Python 3.10 or newer, git; gh for the comment.
set -euo pipefail

venv="${MEMLINT_VENV:-${RUNNER_TEMP:?}/memlint-venv}"

python_of_venv() {
  if [ -x "$venv/Scripts/python.exe" ]; then echo "$venv/Scripts/python.exe"; else echo "$venv/bin/python"; fi
}

install() {
  local python=python3
  command -v python3 >/dev/null || python=python
  "$python" -m venv "$venv"
  local what="$GITHUB_ACTION_PATH"
  [ -z "${MEMLINT_SOURCE:-}" ] || what="$MEMLINT_SOURCE"
  "$(python_of_venv)" -m pip install --quiet --disable-pip-version-check "$what"
  "$(python_of_venv)" -m memlint --version
}

# Reads lines of $1 into the array `words`, without empty ones.
lines() {
  words=()
  local line
  while IFS= read -r line; do
    [ -z "$line" ] || words+=("$line")
  done <<<"$1"
}

card() {
  options=()
  [ -z "${MEMLINT_GPU:-}" ] || options+=("--gpu=$MEMLINT_GPU")
  [ -z "${MEMLINT_GPUS:-}" ] || options+=("--gpus=$MEMLINT_GPUS")
}

check() {
  card
  lines "${MEMLINT_ARGUMENTS:-}"
  options+=(${words[@]+"${words[@]}"})
  case "${MEMLINT_FAIL_ON:-}" in
    "") ;;
    never) options+=(--exit-zero) ;;
    *) options+=("--fail-on=$MEMLINT_FAIL_ON") ;;
  esac
  options+=(--format=github --output=-)
  [ -z "${MEMLINT_SARIF:-}" ] || options+=(--format=sarif "--output=$MEMLINT_SARIF")
  lines "${MEMLINT_PATHS:-.}"
  local code=0
  "$(python_of_venv)" -m memlint check "${options[@]}" -- "${words[@]}" || code=$?
  echo "exit-code=$code" >>"$GITHUB_OUTPUT"
  return "$code"
}

diff_branch() {
  card
  local folder code=0
  folder="$(mktemp -d)"
  # A shallow checkout lacks the other side; its files alone are enough.
  git cat-file -e "$MEMLINT_BASE^{commit}" 2>/dev/null || git fetch --quiet --depth=1 origin "$MEMLINT_BASE"
  "$(python_of_venv)" -m memlint diff ${options[@]+"${options[@]}"} --fail-on=regression \
    --format=text --output=- --format=markdown --output="$folder/comment.md" "$MEMLINT_BASE" || code=$?
  [ "$code" -lt 2 ] || return "$code"
  if [ "$code" -eq 1 ]; then echo "regression=true"; else echo "regression=false"; fi >>"$GITHUB_OUTPUT"
  cat "$folder/comment.md" >>"$GITHUB_STEP_SUMMARY"
  [ "${MEMLINT_COMMENT:-}" != true ] || comment "$folder/comment.md"
  [ "${MEMLINT_FAIL_ON_REGRESSION:-}" != true ] || return "$code"
}

# One comment a pull request: found by its marker and edited, written only where there is none yet.
comment() {
  local known
  known="$(gh api --paginate "repos/$GITHUB_REPOSITORY/issues/$MEMLINT_PULL/comments" \
    --jq '.[] | select(.body | startswith("<!-- memlint-diff -->")) | .id' | head -n 1)"
  if [ -n "$known" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$known" --field "body=@$1"
  else
    gh api --silent --method POST "repos/$GITHUB_REPOSITORY/issues/$MEMLINT_PULL/comments" --field "body=@$1"
  fi
}

case "${1:-}" in
  install) install ;;
  check) check ;;
  diff) diff_branch ;;
  *) echo "usage: action.sh install|check|diff" >&2; exit 2 ;;
esac
