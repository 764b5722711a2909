"""Records what the first requests to a real server take when it starts cold and nobody warms it: the series that warmup/steady is tried on.

    record.py NAME [--starts N] [--requests N] --python FILE [--model FILE] [--server FILE] --out FOLDER

It writes OUT/NAME.json. Each start has one shape, asked from the moment when the server says that it is ready, one request after another, each over a connection
of its own. Only the standard library is used here.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from processes import START_LIMIT, answers, free, given, infer, until
from servers import SERVERS

ABOUT = ("Latencies of a server that started cold and that nobody warmed, in microseconds: for each start the first requests of one shape, one after another, "
         "each over a connection of its own. Others used the machine meanwhile, so there is more noise in them than the server's.")


def series(server, shape, requests):
    port = free()
    process = server.start(port)
    try:
        until("the server says that it is ready", START_LIMIT, lambda: answers(port, server.ready_path), process)
        return [round(1e6 * infer(port, shape)[0]) for _ in range(requests)]
    finally:
        process.end()


def words(command, work):
    """The command without what belongs to this machine: folders, and the numbers of ports."""
    def plain(word):
        if word == work:
            return "FOLDER"
        return "PORT" if word.isdigit() and int(word) in given else pathlib.PurePath(word).name

    return " ".join(map(plain, command))


def written(record):
    """JSON with a line for each series."""
    head = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items() if key != "series"]
    lines = ",\n".join("  " + json.dumps(one, separators=(",", ":")) for one in record["series"])
    return "{\n" + ",\n".join(head) + ',\n "series": [\n' + lines + "\n ]\n}\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=SERVERS)
    parser.add_argument("--starts", type=int, default=3, help="for each shape")
    parser.add_argument("--requests", type=int, default=400, help="of each start")
    for path in ("python", "model", "server", "out"):
        parser.add_argument("--" + path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotlight-servers.") as work:
        server = SERVERS[args.name](args, pathlib.Path(work))
        server.prepare()
        record = {
            "about": ABOUT, "server": server.title, "type": server.type, "version": server.version, "command": words(server.command(free()), work),
            "machine": f"a virtual machine with {os.cpu_count()} cores that others use as well", "series": [],
        }
        for shape in server.shapes:
            for number in range(args.starts):
                print(f"{args.name}: {shape.name}: cold start {number + 1} of {args.starts}", file=sys.stderr)
                record["series"].append({"shape": shape.name, "us": series(server, shape, args.requests)})
    out = pathlib.Path(args.out) / f"{args.name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(written(record))


if __name__ == "__main__":
    main()
