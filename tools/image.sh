#!/usr/bin/env bash
# Builds the container image of this tree without a Docker daemon, and runs it as the release workflow does.
#
#   tools/image.sh [BASE]    BASE replaces the Dockerfile's FROM; without it a Debian base is made from packages,
#                            for machines that reach no image registry
#
# Needs buildah, and debootstrap where BASE is not given; both are Debian packages. Run as root.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# A store of its own: images and containers of this machine are neither used nor removed.
images() {
  BUILDAH_ISOLATION=chroot buildah --root "$work/images" --runroot "$work/run" --storage-driver vfs "$@"
}

debian_base() {
  debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates stable "$work/rootfs" >"$work/log"
  # The official Python images let pip install into the system, Debian's own Python refuses.
  rm -f "$work"/rootfs/usr/lib/python3*/EXTERNALLY-MANAGED
  local container
  container="$(images from scratch)"
  images copy -q "$container" "$work/rootfs" / >/dev/null
  images commit -q "$container" localhost/python-base >/dev/null
}

base="${1:-localhost/python-base}"
[ $# -gt 0 ] || debian_base

python3 -m pip wheel --quiet --no-deps --wheel-dir "$work/context/dist" "$root"
cp "$root/Dockerfile" "$root/.dockerignore" "$work/context/"
images bud --quiet --from "$base" --volume /etc/ssl/certs:/etc/ssl/certs:ro --tag memlint:built "$work/context" >/dev/null

container="$(images from localhost/memlint:built)"
started="$(images inspect --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.User}} {{.OCIv1.Config.WorkingDir}}' "$container")"
[ "$started" = "[memlint] memlint /work" ] || { echo "the image starts as: $started" >&2; exit 1; }
images run --user memlint "$container" -- memlint --version
images run --user memlint --volume "$root:/work:ro" "$container" -- memlint check examples --exit-zero | tail -n 2
