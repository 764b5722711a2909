"""Keeps what measure.py printed, a line for each server, in docs/servers.json, and writes the tables of docs/servers.md from that.

    table.py RESULTS DOCS PILOTLIGHT

A server that did not run now, or not to its end, keeps what an earlier run found. The types are those that PILOTLIGHT knows.
"""

import json
import pathlib
import subprocess
import sys

HEAD = [
    "| server | type | cold starts | request | first user without Pilotlight | with Pilotlight | steady p99 | first to p99, median and worst | ready after | again after `kill -9` | checks |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
]
TIERS = ["| type | tier |", "|---|---|"]


def kept(result):
    """What of a result is kept; nothing when the server did not come to its end."""
    figures = result["figures"]
    if "ready_again_s" not in figures:
        return None
    shapes = {key.removeprefix("pilotlight "): {"alone": figures["control " + key.removeprefix("pilotlight ")], "pilotlight": lit}
              for key, lit in figures.items() if key.startswith("pilotlight ")}
    once = ("server", "product", "version", "type", "starts", "ready_s", "ready_again_s", "users", "cold_users")
    return {key: figures[key] for key in once if key in figures} | {
        "shapes": shapes,
        "works": all(check["ok"] or check["latency"] for check in result["checks"]),
        "failed": [check["name"] for check in result["checks"] if not check["ok"]],
    }


def rows(server):
    crew = f"; {server['cold_users']} of {server['users']} users met a cold worker" if "cold_users" in server else ""
    for name, shape in server["shapes"].items():
        alone, lit = shape["alone"], shape["pilotlight"]
        yield (f"| {server['server']} | `{server['type']}` | {server['starts']} | {name} | {alone['first_ms']:g} ms ({alone['times_steady']:g} times steady) | "
               f"{lit['first_ms']:g} ms, worst {lit['worst_first_ms']:g} ms{crew} | {lit['steady_p99_ms']:g} ms | {lit['times_p99']:g}, {lit['worst_times_p99']:g} | "
               f"{server['ready_s']:g} s | {server['ready_again_s']:g} s | {'failed: ' + '; '.join(server['failed']) if server['failed'] else 'all'} |")


def tiers(servers, types):
    for name in types:
        ran = [f"{server['product']} {server['version']}" for server in servers if server["type"] == name and server["works"]]
        yield f"| `{name}` | {'tested against ' + ', '.join(ran) if ran else 'from documentation and source, tested against fakes'} |"


def types(pilotlight):
    schema = json.loads(subprocess.run([pilotlight, "schema"], capture_output=True, check=True).stdout)
    return [name for name in schema["properties"]["backend"]["properties"]["type"]["enum"] if name != "auto"]


def replaced(text, name, lines):
    """text with those lines between the two marks of that name."""
    begin, end = f"<!-- {name}: written by examples/servers/run --table -->", f"<!-- /{name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"write tables: the page has no lines {begin!r} and {end!r}")
    return before + "\n".join([begin, *lines, end]) + after


def main():
    results, docs = map(pathlib.Path, sys.argv[1:3])
    record, page = docs / "servers.json", docs / "servers.md"
    servers = json.loads(record.read_text()) if record.exists() else {}
    for line in results.read_text().splitlines():
        result = json.loads(line)
        if server := kept(result):
            servers[result["name"]] = server
    servers = dict(sorted(servers.items()))
    text = replaced(page.read_text(), "servers", [*HEAD, *(line for server in servers.values() for line in rows(server))])
    page.write_text(replaced(text, "tiers", [*TIERS, *tiers(servers.values(), types(sys.argv[3]))]))
    record.write_text(json.dumps(servers, indent=1) + "\n")


if __name__ == "__main__":
    main()
