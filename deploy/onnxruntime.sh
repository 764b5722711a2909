#!/usr/bin/env bash
# Puts the ONNX Runtime library at .cache/onnxruntime/libonnxruntime.so, where the worker (pilotlight onnx) and its tests
# look for it, and says where it came from. Doing it again costs one checksum.
#
#   deploy/onnxruntime.sh [FOLDER]      FOLDER instead of .cache/onnxruntime
#
#   PILOTLIGHT_ONNXRUNTIME=FILE         use this library; no other source is tried
#   ONNXRUNTIME_SOURCES="pip npm"       sources to try, in order, out of: loader pip npm release
#   TARGETARCH=amd64|arm64              fetch for another machine than this one (the name is Docker's)
#
# Every source is pinned to one version and one SHA-256. Of a package that is the digest of the library in it, because the
# library is what will run; of the release archive it is the archive's, because only that one is published.
set -euo pipefail

version=1.30.0
oldest=1.29.0 # onnxruntime_go v1.35.0 asks for version 29 of the C API, which came with this release

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$root/.cache/onnxruntime}
library=$folder/libonnxruntime.so
sources=${ONNXRUNTIME_SOURCES:-loader pip npm release}

tried=() # one line for each source that did not work, with its reason
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'onnxruntime: %s\n' "$*"; }
fail() { printf 'onnxruntime: %s\n' "$@" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

machine=${TARGETARCH:-$(uname -m)}
[ "$(uname -s)" = Linux ] || fail "only linux/amd64 and linux/arm64 are known here, not $(uname -s)" "set PILOTLIGHT_ONNXRUNTIME to a library of version $oldest or newer"
case $machine in
x86_64 | amd64)
	elf=3e00 wheel=manylinux_2_27_x86_64,manylinux_2_28_x86_64 node=x64 release=x64
	wheel_sha=c902c70b3003c0e99fada202f37478c515ae9bba7944c2b2abd0017bae0c82ed
	node_sha=ffb75a925ba05e47b235bb66e3e3911714a80b328a9c9425539feb204aa32a23
	release_sha=a5ed5a3cac51fbb2e90da632ae43d19212faaa20e76484e62bcb7c23ddb3b3fd
	;;
aarch64 | arm64)
	elf=b700 wheel=manylinux_2_27_aarch64,manylinux_2_28_aarch64 node=arm64 release=aarch64
	wheel_sha=8a218e1e446880131115c368ec7005969a5022af9a15a26173de648fef0b7789
	node_sha=1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76
	release_sha=e16a27a8ed330bbc698df7330b0cf56e722f354e3bcc92118682c74ef3c3e3da
	;;
*) fail "only linux/amd64 and linux/arm64 are known here, not $machine" "set PILOTLIGHT_ONNXRUNTIME to a library of version $oldest or newer" ;;
esac

digest() { sha256sum "$1" | cut -d' ' -f1; }

# checked FILE DIGEST says in $why what is wrong when FILE has another digest.
checked() {
	local got
	got=$(digest "$1")
	[ "$got" = "$2" ] && return
	why="checksum of $(basename "$1"): expected $2, got $got"
	return 1
}

# fits FILE says in $why what is wrong with a library that somebody else put on this machine. The version is the one that
# its symbols carry (VERS_1.30.0), since file names lie.
fits() {
	local found
	[ -f "$1" ] || { why="no such file"; return 1; }
	[ "$(od -An -tx1 -N4 "$1" | tr -d ' \n')" = 7f454c46 ] || { why="not a shared library"; return 1; }
	[ "$(od -An -tx1 -j18 -N2 "$1" | tr -d ' \n')" = "$elf" ] || { why="built for another processor than $machine"; return 1; }
	found=$(LC_ALL=C grep -a -o -m1 'VERS_[0-9][0-9.]*' "$1" | head -n1 | cut -c6- || true)
	[ -n "$found" ] || { why="carries no version: not ONNX Runtime"; return 1; }
	[ "$(printf '%s\n' "$oldest" "$found" | sort -V | head -n1)" = "$oldest" ] || { why="version $found found, $oldest or newer needed"; return 1; }
	fitting=$found
}

# put FILE ORIGIN move|link brings the library to its place, in one step for whoever looks meanwhile, and remembers where it
# came from.
put() {
	mkdir -p "$folder"
	rm -f "$library.$$"
	if [ "$3" = link ]; then ln -s "$1" "$library.$$"; else mv "$1" "$library.$$"; fi
	printf '%s\n%s\n' "$2" "$(digest "$library.$$")" >"$folder/origin"
	mv -f "$library.$$" "$library"
	say "$library: $2"
}

from_loader() {
	local candidate candidates=() part
	[ "$machine" = "$(uname -m)" ] || { why="the loader of this machine knows no libraries for $machine"; return 1; }
	IFS=: read -ra parts <<<"${LD_LIBRARY_PATH:-}"
	for part in ${parts[@]+"${parts[@]}"}; do
		for candidate in "$part"/libonnxruntime.so "$part"/libonnxruntime.so.1; do [ -n "$part" ] && [ -f "$candidate" ] && candidates+=("$candidate"); done
	done
	while read -r candidate; do candidates+=("$candidate"); done < <({ ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null || true; } | sed -n 's/^[[:space:]]*libonnxruntime\.so.* => //p')
	why="it finds no libonnxruntime.so"
	for candidate in ${candidates[@]+"${candidates[@]}"}; do
		if fits "$candidate"; then
			put "$(readlink -f "$candidate")" "version $fitting, found by the loader as $candidate" link
			return
		fi
		why="$candidate: $why"
	done
	return 1
}

# from_pip names the Python version of the wheel: the library in it does not care, and this machine may have any Python or
# one that has no wheel yet.
from_pip() {
	local pip python archive platforms=() platform
	if have python3 && python3 -m pip --version >/dev/null 2>&1; then
		pip=(python3 -m pip)
	elif have pip3; then
		pip=(pip3)
	elif have pip; then
		pip=(pip)
	else
		why="there is no pip (neither python3 -m pip, pip3 nor pip)"
		return 1
	fi
	IFS=, read -ra parts <<<"$wheel"
	for platform in "${parts[@]}"; do platforms+=(--platform "$platform"); done
	if ! "${pip[@]}" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp --python-version 312 --abi cp312 \
		"${platforms[@]}" --dest "$work/pip" "onnxruntime==$version" >"$work/log" 2>&1; then
		why="${pip[*]} download: $(last_line)"
		return 1
	fi
	archive=$(echo "$work"/pip/onnxruntime-*.whl)
	if python=$(command -v python3 || command -v python); then
		"$python" -m zipfile -e "$archive" "$work/wheel" >"$work/log" 2>&1 || { why="unpack the wheel: $(last_line)"; return 1; }
	elif have unzip; then
		unzip -q "$archive" -d "$work/wheel" >"$work/log" 2>&1 || { why="unpack the wheel: $(last_line)"; return 1; }
	else
		why="there is neither python3 nor unzip to unpack the wheel with"
		return 1
	fi
	checked "$work/wheel/onnxruntime/capi/libonnxruntime.so.$version" "$wheel_sha" || return 1
	put "$work/wheel/onnxruntime/capi/libonnxruntime.so.$version" "version $version, from the onnxruntime wheel (pip)" move
}

# from_npm packs, never installs: an installation would run the package's scripts.
from_npm() {
	local member=package/bin/napi-v6/linux/$node/libonnxruntime.so.1
	have npm || { why="there is no npm"; return 1; }
	have tar || { why="there is no tar"; return 1; }
	mkdir -p "$work/npm"
	if ! (cd "$work/npm" && npm pack --silent "onnxruntime-node@$version") >"$work/log" 2>&1; then
		why="npm pack: $(last_line)"
		return 1
	fi
	tar -xzf "$work"/npm/onnxruntime-node-*.tgz -C "$work/npm" "$member" >"$work/log" 2>&1 || { why="unpack onnxruntime-node: $(last_line)"; return 1; }
	checked "$work/npm/$member" "$node_sha" || return 1
	put "$work/npm/$member" "version $version, from the onnxruntime-node package (npm)" move
}

from_release() {
	local name=onnxruntime-linux-$release-$version
	have curl || { why="there is no curl"; return 1; }
	have tar || { why="there is no tar"; return 1; }
	if ! curl -fsSL --retry 2 --connect-timeout 20 --max-time 600 -o "$work/$name.tgz" \
		"https://github.com/microsoft/onnxruntime/releases/download/v$version/$name.tgz" >"$work/log" 2>&1; then
		why="curl: $(last_line)"
		return 1
	fi
	checked "$work/$name.tgz" "$release_sha" || return 1
	tar -xzf "$work/$name.tgz" -C "$work" >"$work/log" 2>&1 || { why="unpack the release archive: $(last_line)"; return 1; }
	put "$(readlink -f "$work/$name/lib/libonnxruntime.so")" "version $version, from the project's release archive (curl)" move
}

last_line() { grep -v '^[[:space:]]*$' "$work/log" | tail -n1 | cut -c1-300 || true; }

why=
if [ -n "${PILOTLIGHT_ONNXRUNTIME:-}" ]; then
	given=$(readlink -f "$PILOTLIGHT_ONNXRUNTIME" || true)
	# A user may well export the path of what an earlier run put here: there is nothing to link then.
	fits "$PILOTLIGHT_ONNXRUNTIME" || fail "PILOTLIGHT_ONNXRUNTIME=$PILOTLIGHT_ONNXRUNTIME: $why" "unset it to have version $version fetched"
	if [ "$given" = "$(readlink -f "$library" 2>/dev/null || true)" ]; then
		say "$library: version $fitting, as PILOTLIGHT_ONNXRUNTIME says"
	else
		put "$given" "version $fitting, as PILOTLIGHT_ONNXRUNTIME says" link
	fi
	exit
fi

if [ -e "$library" ] && [ -f "$folder/origin" ] && fits "$library" && checked "$library" "$(sed -n 2p "$folder/origin")"; then
	say "$library: $(sed -n 1p "$folder/origin")"
	exit
fi

for source in $sources; do
	case $source in loader | pip | npm | release) ;; *) fail "no such source: $source (loader, pip, npm, release)" ;; esac
	if "from_$source"; then
		exit
	fi
	tried+=("  $source: $why")
done
fail "no source gave the library:" "${tried[@]}" "set PILOTLIGHT_ONNXRUNTIME to a libonnxruntime.so of version $oldest or newer for linux/$machine"
