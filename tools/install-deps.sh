#!/usr/bin/env bash
# Installs the Debian packages that the build and the tests need. Does nothing when all are there.
set -eu
packages="gcc make pkg-config libsqlite3-dev libzstd-dev libjansson-dev libcurl4-openssl-dev libpcre2-dev libssl-dev check
clang-format python3 python3-pip python3-jsonschema"
missing=""
for p in $packages; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
echo "installing from Debian:$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "not root and no sudo: install these yourself:$missing" >&2; exit 3; }
    as_root=sudo
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
