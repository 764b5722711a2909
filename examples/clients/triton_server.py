"""A Triton Inference Server with two models whose answers anybody can compute: the NVIDIA core that PyTriton ships, on the CPU.

    triton_server.py HTTP_PORT GRPC_PORT METRICS_PORT

sums:   x FP32 [-1] -> doubled FP32 [-1], total FP32 [1]; batches are formed by the server
counts: n INT32 [1]  -> i INT32 [1], n answers to one request, one each 25 ms (a decoupled model)

Needs the package nvidia-pytriton, and a Python whose libpython is the one that the loader finds, as a system's own Python is.
"""

import sys
import time

import numpy
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

PAUSE = 0.025


@batch
def sums(x):
    return {"doubled": 2 * x, "total": x.sum(axis=1, keepdims=True)}


def counts(requests):
    for i in range(int(requests[0]["n"].flat[0])):
        time.sleep(PAUSE)
        yield [{"i": numpy.array([i], numpy.int32)} for _ in requests]


def main():
    http, grpc, metrics = map(int, sys.argv[1:])
    local = "127.0.0.1"
    config = TritonConfig(http_address=local, http_port=http, grpc_address=local, grpc_port=grpc, metrics_address=local, metrics_port=metrics)
    with Triton(config=config) as triton:
        triton.bind(
            "sums", sums, [Tensor(name="x", dtype=numpy.float32, shape=(-1,))],
            [Tensor(name="doubled", dtype=numpy.float32, shape=(-1,)), Tensor(name="total", dtype=numpy.float32, shape=(1,))],
            config=ModelConfig(max_batch_size=8, batcher=DynamicBatcher(max_queue_delay_microseconds=1000)), strict=True,
        )
        triton.bind(
            "counts", counts, [Tensor(name="n", dtype=numpy.int32, shape=(1,))], [Tensor(name="i", dtype=numpy.int32, shape=(1,))],
            config=ModelConfig(batching=False, decoupled=True),
        )
        triton.serve()


if __name__ == "__main__":
    main()
