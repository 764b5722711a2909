"""Trains the digit classifier of this folder and writes everything the Go package here embeds.

    python3 -m venv .venv && .venv/bin/pip install -r requirements.txt && .venv/bin/python train.py

Data: scikit-learn's "digits" set, 1797 real handwritten digits of 8x8 pixels with values 0 to 16. A fifth of it, drawn with a
fixed seed and stratified by digit, is held out; training never sees it. Everything is seeded, so a second run on the same
machine writes the same bytes (another BLAS may round otherwise).

Writes, beside this script:
    model.onnx      the classifier: "image" float32 [batch,1,8,8] of values 0 to 1 -> "scores" float32 [batch,10], a probability
                    for each digit
    images/*.png    20 held-out images, 8x8 gray: the first two of each digit in the order of the held-out split, whether the
                    model gets them right or not
    labels.json     the digit that each image shows, and what the model answers
    accuracy.json   the share of the held-out images that the model gets right, measured with ONNX Runtime on model.onnx

A pixel value v of 0..16 is stored in the PNG as round(v * 255 / 16), and v = round(p * 16 / 255) gives it back exactly.
"""

import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 20240501
EPOCHS = 60
BATCH = 32
HERE = pathlib.Path(__file__).resolve().parent


def patches(x):
    """[n,c,h,w] -> [n*h*w, c*9]: the 3x3 surroundings of each pixel, zero outside the image."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)


def unpatches(columns, shape):
    """The adjoint of patches: adds each surrounding back onto the pixels it came from."""
    n, c, h, w = shape
    windows = columns.reshape(n, h, w, c, 3, 3)
    padded = np.zeros((n, c, h + 2, w + 2), columns.dtype)
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + h, j : j + w] += windows[..., i, j].transpose(0, 3, 1, 2)
    return padded[:, :, 1:-1, 1:-1]


class Net:
    """conv 3x3 (1->16), relu, conv 3x3 (16->32), relu, 2x2 max pool, dense (512->10); trained by Adam on cross entropy."""

    def __init__(self, rng):
        def he(*shape):
            return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

        self.weights = {
            "conv1_w": he(16, 9), "conv1_b": np.zeros(16, np.float32),
            "conv2_w": he(32, 144), "conv2_b": np.zeros(32, np.float32),
            "dense_w": he(10, 512), "dense_b": np.zeros(10, np.float32),
        }
        self.moments = {name: (np.zeros_like(w), np.zeros_like(w)) for name, w in self.weights.items()}
        self.steps = 0

    def step(self, x, labels, rate):
        w, n = self.weights, len(x)
        p1 = patches(x)
        a1 = np.maximum(p1 @ w["conv1_w"].T + w["conv1_b"], 0)
        m1 = a1.reshape(n, 8, 8, 16).transpose(0, 3, 1, 2)
        p2 = patches(m1)
        a2 = np.maximum(p2 @ w["conv2_w"].T + w["conv2_b"], 0)
        cells = a2.reshape(n, 4, 2, 4, 2, 32).transpose(0, 5, 1, 3, 2, 4).reshape(n, 32, 4, 4, 4)
        best = cells.argmax(-1)
        pooled = np.take_along_axis(cells, best[..., None], -1)[..., 0]
        flat = pooled.reshape(n, 512)
        logits = flat @ w["dense_w"].T + w["dense_b"]
        scores = np.exp(logits - logits.max(1, keepdims=True))
        scores /= scores.sum(1, keepdims=True)

        d_logits = scores
        d_logits[np.arange(n), labels] -= 1
        d_logits /= n
        d_pooled = (d_logits @ w["dense_w"]).reshape(n, 32, 4, 4)
        d_cells = np.zeros_like(cells)
        np.put_along_axis(d_cells, best[..., None], d_pooled[..., None], -1)
        d_a2 = d_cells.reshape(n, 32, 4, 4, 2, 2).transpose(0, 2, 4, 3, 5, 1).reshape(n * 64, 32) * (a2 > 0)
        d_m1 = unpatches(d_a2 @ w["conv2_w"], m1.shape)
        d_a1 = d_m1.transpose(0, 2, 3, 1).reshape(n * 64, 16) * (a1 > 0)
        self.adam({
            "dense_w": d_logits.T @ flat, "dense_b": d_logits.sum(0),
            "conv2_w": d_a2.T @ p2, "conv2_b": d_a2.sum(0),
            "conv1_w": d_a1.T @ p1, "conv1_b": d_a1.sum(0),
        }, rate)

    def adam(self, gradients, rate):
        self.steps += 1
        for name, g in gradients.items():
            mean, square = self.moments[name]
            mean += 0.1 * (g - mean)
            square += 0.001 * (g * g - square)
            scale = rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
            self.weights[name] -= (scale * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
            if name.endswith("_w"):
                self.weights[name] *= np.float32(1 - rate * 0.02)


def export(weights):
    shapes = {"conv1_w": (16, 1, 3, 3), "conv2_w": (32, 16, 3, 3)}
    constants = [numpy_helper.from_array(w.reshape(shapes.get(name, w.shape)), name) for name, w in weights.items()]
    nodes = [
        helper.make_node("Conv", ["image", "conv1_w", "conv1_b"], ["conv1"], "conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        helper.make_node("Conv", ["relu1", "conv2_w", "conv2_b"], ["conv2"], "conv2", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        helper.make_node("MaxPool", ["relu2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "dense_w", "dense_b"], ["logits"], "dense", transB=1),
        helper.make_node("Softmax", ["logits"], ["scores"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        constants,
    )
    model = helper.make_model(graph, producer_name="pilotlight", opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def main():
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=0.2, random_state=SEED, stratify=digits.target)
    rng = np.random.default_rng(SEED)
    net = Net(rng)
    for epoch in range(EPOCHS):
        rate = 0.002 * (0.5 + 0.5 * np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(train_x))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            batch = (train_x[chosen] / 16).astype(np.float32)
            # Shifted by at most one pixel, each image its own way: the set is small.
            for i in range(len(batch)):
                batch[i] = np.roll(batch[i], rng.integers(-1, 2, 2), (0, 1))
            net.step(batch[:, None], train_y[chosen], rate)

    model = export(net.weights)
    (HERE / "model.onnx").write_bytes(model)

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    scores = session.run(["scores"], {"image": (test_x / 16).astype(np.float32)[:, None]})[0]
    answers = scores.argmax(1)
    right = int((answers == test_y).sum())
    (HERE / "accuracy.json").write_text(json.dumps({
        "held_out": len(test_y), "right": right, "accuracy": round(right / len(test_y), 4), "trained_on": len(train_y),
    }, indent=2) + "\n")

    (HERE / "images").mkdir(exist_ok=True)
    for old in (HERE / "images").glob("*.png"):
        old.unlink()
    labels = []
    for digit in range(10):
        for nth, index in enumerate(np.flatnonzero(test_y == digit)[:2]):
            pixels = np.rint(test_x[index].astype(np.float64) * 255 / 16).astype(np.uint8)
            assert (np.rint(pixels.astype(np.float64) * 16 / 255) == test_x[index]).all()
            name = f"images/{digit}-{nth + 1}.png"
            Image.fromarray(pixels).save(HERE / name, optimize=True)
            labels.append({"image": name, "digit": digit, "answer": int(answers[index])})
    (HERE / "labels.json").write_text("[\n" + ",\n".join("  " + json.dumps(label) for label in labels) + "\n]\n")
    print(f"model.onnx: {len(model)} bytes, {right} of {len(test_y)} held-out images right")


if __name__ == "__main__":
    main()
