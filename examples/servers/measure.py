"""Starts real model servers cold, first by themselves and then behind Pilotlight, and says what their first users got.

    measure.py NAME [--starts N] [--limit SECONDS] --pilotlight FILE --python FILE [--model FILE] [--server FILE] --keep FOLDER

It prints one line of JSON, {"name", "ok", "checks", "figures", "skipped"}. It exits 1 when a check failed, and 3 when all that failed compares latencies,
which a busy machine may have spoilt. The script "run" beside it installs what is needed and calls it. Only the standard library is used here.
"""

import argparse
import concurrent.futures
import functools
import http.client
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from processes import START_LIMIT, Failure, Pilot, answers, free, infer, until
from servers import SERVERS

COLD = 3  # a first request that takes this many times the steady latency met something cold
DECISIVE_STARTS = 5  # a median of fewer first requests is a matter of luck: of a warm server, too, some are above their p99
STEADY_STARTS = 10  # after so many of the starts the steady latency is measured as well; in the others only first users count
CONTROL_STARTS = 3  # for each shape


def p99(values):
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


class Seen:
    """What users saw right after a start: the first request of each shape, and the steady latency of that shape after it."""

    def __init__(self, server, port, shapes=None, steady=True):
        shapes = shapes or server.shapes
        self.steady = steady
        self.first, self.p99, self.median, self.crew = {}, {}, {}, None
        for shape in shapes:
            self.first[shape.name], body = infer(port, shape)
            if server.counts_cold and not self.crew:
                self.crew = Crew(server, port, body)
        for shape in shapes if steady else ():
            took = [infer(port, shape)[0] for _ in range(server.requests)]
            self.p99[shape.name], self.median[shape.name] = p99(took[server.requests // 10:]), statistics.median(took)

    def times_p99(self, shape):
        return self.first[shape] / self.p99[shape]

    def times_steady(self, shape):
        return self.first[shape] / self.median[shape]


class Crew:
    """What users of a server with several workers saw: how many requests were cold, and which workers answered."""

    def __init__(self, server, port, first=None):
        self.cold, self.workers, self.asked = 0, set(), 0
        if first:
            self.hear(first)
        shape = server.shapes[0]
        # Users who come while every worker is busy reach all of them.
        with concurrent.futures.ThreadPoolExecutor(4 * server.workers) as users:
            while self.asked < 80 or (len(self.workers) < server.workers and self.asked < 400):
                for _, body in users.map(lambda _: infer(port, shape), range(4 * server.workers)):
                    self.hear(body)

    def hear(self, body):
        said = json.loads(body)
        self.asked += 1
        self.cold += said["cold"]
        self.workers.add(said["worker"])


class Trial:
    def __init__(self, args, work):
        self.args, self.work, self.checks, self.figures = args, work, [], {}
        self.server = SERVERS[args.name](args, work)

    def check(self, name, ok, seen="", latency=False):
        """latency says that the check compares latencies, so that a busy machine can fail it."""
        self.checks.append({"name": name, "ok": bool(ok), "seen": str(seen), "latency": latency})

    def run(self):
        server = self.server
        server.prepare()
        self.figures.update(server=server.title, product=server.product, version=server.version, type=server.type, starts=self.args.starts)
        self.control(min(self.args.starts, CONTROL_STARTS))
        self.lit()
        if server.counts_cold:
            self.unguessed()

    def control(self, starts):
        """Without Pilotlight: users come as soon as the server says that it is ready."""
        seen = {}
        for shape in self.server.shapes:
            for _ in range(starts):
                port = free()
                process = self.server.start(port)
                try:
                    until("the server says that it is ready", START_LIMIT, lambda: answers(port, self.server.ready_path), process)
                    # Each start has one shape asked first, since the first request of all may warm the others as well.
                    seen.setdefault(shape.name, []).append(Seen(self.server, port, [shape]))
                finally:
                    process.end()
            self.tell("control", shape, seen[shape.name])
            ratio = statistics.median(one.times_steady(shape.name) for one in seen[shape.name])
            self.check(f"control: {shape.name}: the first user of a server that says it is ready waits {COLD} times as long as later ones", ratio >= COLD,
                       f"{ratio:.1f} times in the median of {starts}", latency=True)
        if self.server.counts_cold:
            cold = [one.crew.cold for one in seen[self.server.shapes[0].name]]
            self.figures["control_cold_users"] = cold
            self.check("control: users meet every worker cold", min(cold) >= self.server.workers, cold)

    def tell(self, prefix, shape, seen):
        name, compared = shape.name, [one for one in seen if one.steady]
        self.figures[f"{prefix} {name}"] = {
            "first_ms": ms(statistics.median(one.first[name] for one in seen)),
            "worst_first_ms": ms(max(one.first[name] for one in seen)),
            "steady_ms": ms(statistics.median(one.median[name] for one in compared)),
            "steady_p99_ms": ms(statistics.median(one.p99[name] for one in compared)),
            "times_steady": round(statistics.median(one.times_steady(name) for one in compared), 2),
            "times_p99": round(statistics.median(one.times_p99(name) for one in compared), 2),
            "worst_times_p99": round(max(one.times_p99(name) for one in compared), 2),
        }

    def lit(self):
        """With Pilotlight, which starts together with the server; the last start is followed by a kill -9."""
        seen, ready, requests, left = [], [], [], []
        for number in range(self.args.starts):
            port = free()
            process = self.server.start(port)
            pilot = Pilot(self.args, self.work, f"pilot{number}", port, self.server.settings)
            try:
                ready.append(pilot.ready(process))
                status = pilot.status()
                seen.append(Seen(self.server, pilot.data, steady=number < STEADY_STARTS))
                if self.server.counts_cold:
                    # Those that no user happened to reach, by the server's own port.
                    left.append(Crew(self.server, port))
                requests.append(status["warmup"]["requests"])
                if number == 0:
                    self.recognised(status["warmup"])
                if number == self.args.starts - 1:
                    self.killed(pilot, process, port, status["warmup"]["run"])
            finally:
                process.end()
                pilot.process.end()
        self.figures["ready_s"] = round(statistics.median(ready), 2)
        self.figures["worst_ready_s"] = round(max(ready), 2)
        self.figures["synthetic_requests"] = statistics.median(requests)
        for shape in self.server.shapes:
            self.tell("pilotlight", shape, seen)
            ratios = [one.times_p99(shape.name) for one in seen if one.steady]
            ratio = statistics.median(ratios)
            seen_as = f"{ratio:.2f} times the steady p99 in the median of {len(ratios)}, {max(ratios):.2f} at worst"
            if len(ratios) >= DECISIVE_STARTS:
                self.check(f"{shape.name}: the first user waits no longer than the steady p99", ratio <= 1, seen_as, latency=True)
            else:
                self.check(f"{shape.name}: the first user meets nothing cold", ratio < COLD, seen_as, latency=True)
        if crews := [one.crew for one in seen if one.crew]:
            cold, asked = sum(crew.cold for crew in crews), sum(crew.asked for crew in crews)
            self.figures.update(users=asked, cold_users=cold)
            self.check(f"no user of any of {self.server.workers} workers meets a cold one", cold == 0, f"{cold} of {asked} in {len(crews)} starts")
            cold, reached = sum(crew.cold for crew in left), [len(crew.workers) for crew in left]
            self.figures["cold_workers_left"] = cold
            self.check("no worker was left cold", cold == 0 and min(reached) == self.server.workers,
                       f"{cold} cold answers, {min(reached)} of {self.server.workers} workers reached at least")

    def recognised(self, warmup):
        self.check("recognised", warmup["server_type"] == self.server.type, warmup["server_type"])
        shapes = [written(shape["shape"]) for shape in warmup["shapes"]]
        states = sorted({shape["state"] for shape in warmup["shapes"]})
        self.figures["plan"] = shapes
        for planned in self.server.planned:
            self.check(f"the plan holds {planned}", any(planned in shape for shape in shapes), "; ".join(shapes) + ": " + ", ".join(states))
        models = [(model["name"], model["outcome"]) for model in warmup["models"]]
        self.check("every model was warmed", models and all(outcome in ("warm", "degraded") for _, outcome in models), models)

    def killed(self, pilot, process, port, run):
        process.kill()
        until("kill -9: readyz is taken back", 30, lambda: answers(pilot.health, "/readyz", 503))
        process = self.server.start(port)
        try:
            again = pilot.ready(process)
            warmup = pilot.status()["warmup"]
            seen = Seen(self.server, pilot.data)
        finally:
            process.end()
        self.check("kill -9 and restart: warmed again", warmup["run"] > run and warmup["requests"] > 0,
                   f"run {warmup['run']} after run {run}, {warmup['requests']} requests")
        self.figures["ready_again_s"] = round(again, 2)
        if seen.crew:
            self.check("kill -9 and restart: no user meets a cold worker", seen.crew.cold == 0, f"{seen.crew.cold} of {seen.crew.asked}")
        for shape in self.server.shapes:
            self.check(f"kill -9 and restart: {shape.name}: the first user meets nothing cold", seen.times_p99(shape.name) < COLD,
                       f"{seen.times_p99(shape.name):.2f} times the steady p99", latency=True)

    def unguessed(self):
        """Without a sample request nothing is sent, and that is said."""
        port = free()
        log = self.work / "server.log"
        before = log.read_text().count("/predict")
        process = self.server.start(port)
        pilot = Pilot(self.args, self.work, "unguessed", port, 'backend: {http: "{backend}"}')
        try:
            pilot.ready(process)
            warmup = pilot.status()["warmup"]
            told = [reason for model in warmup["models"] for reason in model.get("reasons", [])]
            self.check("without a sample: recognised", warmup["server_type"] == "http", warmup["server_type"])
            self.check("without a sample: warmed_nothing", "warmed_nothing" in told, told)
            sent = log.read_text().count("/predict") - before
            self.check("without a sample: nothing is guessed", sent == 0 and warmup["requests"] == 0, f"{sent} requests to the application")
        finally:
            process.end()
            pilot.process.end()


def ms(seconds):
    return round(1000 * seconds, 2)


def written(shape):
    return shape if isinstance(shape, str) else " ".join(f"{key}={value}" for key, value in shape.items()) or "sample"


def too_late(limit, *_):
    raise Failure(f"not through within {limit} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=SERVERS)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--limit", type=int, default=0, help="seconds after which the run has failed; 0 is none")
    for path in ("pilotlight", "python", "model", "server", "keep"):
        parser.add_argument("--" + path)
    args = parser.parse_args()
    for path in ("pilotlight", "python", "model", "server"):
        if getattr(args, path):
            setattr(args, path, os.path.abspath(getattr(args, path)))
    work = pathlib.Path(tempfile.mkdtemp(prefix="pilotlight-servers."))
    trial, began = Trial(args, work), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGALRM, functools.partial(too_late, args.limit))
    signal.alarm(args.limit)
    try:
        trial.run()
    except (Failure, OSError, http.client.HTTPException, subprocess.SubprocessError, KeyError, ValueError) as error:
        trial.check("it runs to its end", False, f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
        trial.figures["seconds"] = round(time.monotonic() - began, 1)
        ok = bool(trial.checks) and all(check["ok"] for check in trial.checks)
        if not ok and args.keep:
            shutil.rmtree(args.keep, ignore_errors=True)
            shutil.copytree(work, args.keep)
        shutil.rmtree(work)
    print(json.dumps({"name": args.name, "ok": ok, "checks": trial.checks, "figures": trial.figures, "skipped": None}))
    sys.exit(0 if ok else 3 if all(check["ok"] or check["latency"] for check in trial.checks) else 1)


if __name__ == "__main__":
    main()
