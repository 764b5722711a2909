"""Asks a Triton for what its models compute, with NVIDIA's tritonclient: binary tensors over HTTP, gRPC calls, a gRPC stream.

    triton_client.py held|all HOST:PORT

One address for both protocols, as Pilotlight offers it. Needs the package tritonclient[http,grpc].
"""

import queue
import sys
import time

import numpy
import tritonclient.grpc as grpc
import tritonclient.http as http
from report import Arrivals, check, figure
from tritonclient.utils import InferenceServerException

PATIENCE = 60
COUNT = 20


def sums(module, client, x, binary=None):
    """Asks for the sums of x and returns (what was right, what came)."""
    asked = module.InferInput("x", list(x.shape), "FP32")
    form = {} if binary is None else {"binary_data": binary}
    asked.set_data_from_numpy(x, **form)
    wanted = [module.InferRequestedOutput(name, **form) for name in ("doubled", "total")]
    answer = client.infer("sums", [asked], outputs=wanted)
    doubled, total = answer.as_numpy("doubled"), answer.as_numpy("total")
    right = numpy.array_equal(doubled, 2 * x) and numpy.allclose(total, x.sum(axis=1, keepdims=True), rtol=1e-4)
    return bool(right), f"{doubled.shape} {doubled.dtype}, {total.shape} {total.dtype}"


def numbers(rows, columns):
    return numpy.random.default_rng(rows + columns).standard_normal((rows, columns), dtype=numpy.float32)


def over_http(address):
    client = http.InferenceServerClient(address, network_timeout=PATIENCE, connection_timeout=PATIENCE)
    check("http: server and model are ready", client.is_server_ready() and client.is_model_ready("sums"), client.get_server_metadata()["name"])
    check("http: metadata", client.get_model_metadata("sums")["inputs"][0]["name"] == "x", client.get_model_metadata("sums")["inputs"])
    check("http: tensors as JSON", *sums(http, client, numbers(2, 5), binary=False))
    check("http: binary tensors", *sums(http, client, numbers(2, 5), binary=True))
    check("http: binary tensors of 4 MiB", *sums(http, client, numbers(4, 1 << 18), binary=True))
    try:
        client.infer("nothing", [])
        check("http: an unknown model is an error", False, "it was answered")
    except InferenceServerException as error:
        check("http: an unknown model is an error", "nothing" in str(error), error)
    client.close()


def over_grpc(address):
    client = grpc.InferenceServerClient(address)
    check("grpc: server and model are ready", client.is_server_ready() and client.is_model_ready("sums"), client.get_server_metadata().name)
    check("grpc: unary", *sums(grpc, client, numbers(2, 5)))
    check("grpc: unary of 8 MiB", *sums(grpc, client, numbers(8, 1 << 18)))
    try:
        client.infer("nothing", [])
        check("grpc: an unknown model is an error", False, "it was answered")
    except InferenceServerException as error:
        check("grpc: an unknown model is an error", "nothing" in str(error), error)
    client.close()


def streaming(address):
    """One request, many answers: the stream stays open towards the server all the time."""
    client = grpc.InferenceServerClient(address)
    came = queue.Queue()
    client.start_stream(lambda result, error: came.put((result, error)))
    asked = grpc.InferInput("n", [1], "INT32")
    asked.set_data_from_numpy(numpy.array([COUNT], numpy.int32))
    arrivals, seen = Arrivals(), []
    client.async_stream_infer("counts", [asked])
    for _ in range(COUNT):
        result, error = came.get(timeout=PATIENCE)
        if error is not None:
            check("grpc stream: values", False, error)
            return
        arrivals.came()
        seen.append(int(result.as_numpy("i").flat[0]))
    client.stop_stream()
    client.close()
    check("grpc stream: values", seen == list(range(COUNT)), seen)
    arrivals.judge("grpc stream: piece by piece", COUNT, "stream")


def held(address):
    started = time.monotonic()
    client = http.InferenceServerClient(address, network_timeout=PATIENCE, connection_timeout=PATIENCE)
    check("held: binary tensors", *sums(http, client, numbers(2, 5), binary=True))
    figure("held_ms", round(1000 * (time.monotonic() - started)))
    client.close()


if __name__ == "__main__":
    if sys.argv[1] == "held":
        held(sys.argv[2])
    else:
        over_http(sys.argv[2])
        over_grpc(sys.argv[2])
        streaming(sys.argv[2])
