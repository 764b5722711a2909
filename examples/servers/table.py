"""Writes what measure.py printed, a line for each server, into the table of docs/servers.md.

    table.py RESULTS docs/servers.md

A row is replaced only by a run of the same server; those of servers that did not run now stay.
"""

import json
import pathlib
import sys

BEGIN, END = "<!-- servers: written by examples/servers/run --table -->", "<!-- /servers -->"
HEAD = [
    "| server | type | cold starts | request | first user without Pilotlight | with Pilotlight | steady p99 | first to p99, median and worst | ready after | again after `kill -9` | checks |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
]


def rows(result):
    figures = result["figures"]
    if "ready_again_s" not in figures:
        return  # it did not come to its end
    for key, lit in figures.items():
        if not key.startswith("pilotlight "):
            continue
        shape = key.removeprefix("pilotlight ")
        alone = figures["control " + shape]
        failed = [check["name"] for check in result["checks"] if not check["ok"]]
        crew = f"; {figures['cold_users']} of {figures['users']} users met a cold worker" if "cold_users" in figures else ""
        yield (f"| {figures['server']} | `{figures['type']}` | {figures['starts']} | {shape} | {alone['first_ms']:g} ms ({alone['times_p99']:g} times its p99{'; never cold' if figures.get('never_cold') else ''}) | "
               f"{lit['first_ms']:g} ms, worst {lit['worst_first_ms']:g} ms{crew} | {lit['steady_p99_ms']:g} ms | {lit['times_p99']:g}, {lit['worst_times_p99']:g} | "
               f"{figures['ready_s']:g} s | {figures['ready_again_s']:g} s | {'failed: ' + '; '.join(failed) if failed else 'all'} |")


def main():
    results, page = map(pathlib.Path, sys.argv[1:])
    text = page.read_text()
    before, found, rest = text.partition(BEGIN)
    inside, closed, after = rest.partition(END)
    if not (found and closed):
        sys.exit(f"write table: {page} has no lines {BEGIN!r} and {END!r}")
    made = {}
    for line in results.read_text().splitlines():
        result = json.loads(line)
        if lines := list(rows(result)):
            made[result["figures"]["server"].split()[0]] = lines
    kept = [line for line in inside.splitlines() if line.startswith("| ") and line not in HEAD and line.split()[1] not in made]
    page.write_text(before + "\n".join([BEGIN, *HEAD, *kept, *(line for lines in made.values() for line in lines), END]) + after)


if __name__ == "__main__":
    main()
