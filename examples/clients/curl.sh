#!/usr/bin/env bash
# Asks a digit model and a chat model with curl, in every way in which curl sends and reads.
#
#   curl.sh held|all DIGITS CHAT     two addresses; CHAT may be "" where there is no chat server
#
# DIRECT, if set, is where the digit model answers without anybody in between: the same request must get the same outputs there.
set -uo pipefail
what=$1 digits=$2 chat=$3
here=$(cd "$(dirname "$0")" && pwd)
request=$here/../digits/request.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() { printf 'check\t%s\t%s\t%s\n' "$1" "$2" "${*:3}"; }
figure() { printf 'figure\t%s\t%s\n' "$1" "$2"; }
verdict() { "$@" && echo ok || echo failed; }
# ask NAME ARGUMENTS... leaves answer, head and log in $work/NAME.* and says what curl measured.
ask() { curl -sS --max-time 60 -v -o "$work/$1.answer" -D "$work/$1.head" -w '%{http_code} %{http_version} %{time_total} %{size_upload}' "${@:2}" 2>"$work/$1.log"; }
# outputs FILE prints the values that the model computed, which do not depend on how they travelled.
outputs() { sed 's/.*"outputs"://' "$1"; }
has_outputs() { grep -q '"outputs"' "$1"; }
url=http://$digits/v2/models/digits/infer

if [ "$what" = held ]; then
	# A body that waits for "100 Continue" is there while the request is held: whoever holds it must have answered that.
	code=$(ask held -H 'Expect: 100-continue' --expect100-timeout 50 --data-binary @"$request" "$url")
	check "held: Expect: 100-continue" "$(verdict has_outputs "$work/held.answer")" "$code"
	figure held_ms "$(awk '{ printf "%d", 1000 * $3 }' <<<"$code")"
	exit
fi

code=$(ask h1 --data-binary @"$request" "$url")
check "HTTP/1.1" "$(verdict test "${code:0:7}" = "200 1.1")" "$code"
check "Server-Timing says what was waited for" "$(verdict grep -qi '^server-timing: hold;dur=' "$work/h1.head")" "$(grep -i '^server-timing' "$work/h1.head" | tr -d '\r')"
if [ -n "${DIRECT:-}" ]; then
	ask direct --data-binary @"$request" "http://$DIRECT/v2/models/digits/infer" >"$work/direct.code"
	check "the outputs are those of the server asked directly" "$(verdict test "$(outputs "$work/direct.answer")" = "$(outputs "$work/h1.answer")")" "$(wc -c <"$work/h1.answer") bytes"
fi
code=$(ask h2 --http2-prior-knowledge --data-binary @"$request" "$url")
check "HTTP/2 with prior knowledge" "$(verdict test "${code:0:5} $(outputs "$work/h2.answer")" = "200 2 $(outputs "$work/h1.answer")")" "$code"
code=$(ask two "$url" --data-binary @"$request" --next -sS -o "$work/two.second" -w ' %{http_code} %{num_connects}' --data-binary @"$request" "$url")
check "two requests on one connection" "$(verdict test "${code##* }" = 0)" "$code"
code=$(ask head -I "http://$digits/v2/models/digits")
check "HEAD is answered and has no body" "$(verdict test "${code:0:3}" = 200)" "$code"

# A body beyond 1 MiB: the same image again and again, in batches.
row=$(sed 's/.*"data":\[\([^]]*\)\].*/\1/' "$request")
rows=8000
{
	printf '{"inputs":[{"name":"image","datatype":"FP32","shape":[%d,1,8,8],"data":[' "$rows"
	for ((i = 1; i < rows; i++)); do printf '%s,' "$row"; done
	printf '%s]}]}' "$row"
} >"$work/large.json"
size=$(wc -c <"$work/large.json")
figure large_bytes "$size"
check "the large body is larger than 1 MiB" "$(verdict test "$size" -gt 1048576)" "$size bytes"
same() { test "${code%% *}" = 200 && grep -q "\"shape\":\[$rows," "$1" && cmp -s <(outputs "$1") <(outputs "$work/large.answer"); }
code=$(ask large -H 'Expect:' --data-binary @"$work/large.json" "$url")
check "a large body" "$(verdict same "$work/large.answer")" "$code"
# If nobody answered the expectation, curl would wait for 50 s before it sends.
code=$(ask expect -H 'Expect: 100-continue' --expect100-timeout 50 --data-binary @"$work/large.json" "$url")
check "Expect: 100-continue" "$(verdict same "$work/expect.answer")" "$code"
check "100 Continue is answered" "$(verdict grep -q '^< HTTP/1.1 100' "$work/expect.log")" "$(awk '{ print $3 " s in all" }' <<<"$code")"
code=$(ask stdin -T - -X POST -H 'Expect:' "$url" <"$work/large.json")
check "an upload from stdin, chunked" "$(verdict same "$work/stdin.answer")" "$code, $(grep -ci '^> transfer-encoding: chunked' "$work/stdin.log") Transfer-Encoding"
code=$(ask stdin2 --http2-prior-knowledge -T - -X POST "$url" <"$work/large.json")
check "an upload from stdin over HTTP/2" "$(verdict same "$work/stdin2.answer")" "$code"
code=$(ask slow -T - -X POST -H 'Expect:' "$url" < <(head -c 300000 "$work/large.json"; read -rt 1 <> <(:); tail -c +300001 "$work/large.json"))
check "an upload from stdin that pauses" "$(verdict same "$work/slow.answer")" "$code"

[ -n "$chat" ] || exit 0
body='{"messages":[{"role":"user","content":"say something"}],"max_tokens":100,"temperature":0,"stream":true,"ignore_eos":true}'
for version in http1.1 http2-prior-knowledge; do
	# The clock of each line that comes, in microseconds. A stream that somebody gathers on the way has its first line as late as its last.
	asked=${EPOCHREALTIME/[.,]/}
	curl -sSN --max-time 60 "--$version" -H 'content-type: application/json' -d "$body" "http://$chat/v1/chat/completions" 2>"$work/sse.log" |
		while IFS= read -r line; do [ "${line:0:5}" = data: ] && printf '%s\t%s\n' "${EPOCHREALTIME/[.,]/}" "$line"; done >"$work/sse"
	read -r pieces first last < <(awk -F'\t' -v asked="$asked" 'NR == 1 { first = $1 } { last = $1 } END { printf "%d %d %d\n", NR, (first - asked) / 1000, (last - asked) / 1000 }' "$work/sse")
	ended=$(tail -n1 "$work/sse" | cut -f2)
	spread_out() { test "$pieces" -ge 100 && test "$first" -lt $((last / 3)) && test "$ended" = 'data: [DONE]'; }
	check "SSE with -N, --$version" "$(verdict spread_out)" "$pieces pieces, first after $first ms, last after $last ms, the last one: $ended $(head -c 200 "$work/sse.log")"
	figure "sse_${version%%-*}_pieces" "$pieces"
	figure "sse_${version%%-*}_first_ms" "$first"
	figure "sse_${version%%-*}_last_ms" "$last"
done
