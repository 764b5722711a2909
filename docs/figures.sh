#!/usr/bin/env bash
# Runs the demo and writes its figures where they are quoted: docs/timeline.svg, docs/demo.json and the block in README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(mktemp)
trap 'rm -f "$output"' EXIT
bin/pilotlight demo --once --check --json docs/demo.json --svg docs/timeline.svg | tee "$output"
awk -v output="$output" '
  /<!-- \/demo -->/ { inside = 0 }
  !inside { print }
  /<!-- demo -->/ { inside = 1; print "```"; while ((getline line < output) > 0) print line; print "```" }
' README.md > README.md.new
mv README.md.new README.md
