"""A model server made with KServe's Python SDK, as its users write them: an ONNX model, loaded at start, behind the Open Inference Protocol.

    MODEL=FILE.onnx kserve_server.py --http_port 8080

digits: image FP32 [-1, 1, 8, 8] -> digit INT64 [-1]. Needs the packages kserve and onnxruntime.
"""

import os
import uuid

import kserve
import numpy
import onnxruntime


class Digits(kserve.Model):
    def __init__(self):
        super().__init__("digits")
        self.session = None

    def load(self):
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
        self.ready = True
        return self.ready

    def get_input_types(self):
        return [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]

    def get_output_types(self):
        return [{"name": "digit", "datatype": "INT64", "shape": [-1]}]

    async def predict(self, payload, headers=None, response_headers=None):
        image = payload.inputs[0].as_numpy().astype(numpy.float32)
        scores = self.session.run(None, {self.session.get_inputs()[0].name: image})[0]
        digit = scores.argmax(axis=1).astype(numpy.int64)
        output = kserve.InferOutput("digit", list(digit.shape), "INT64")
        output.set_data_from_numpy(digit, binary_data=False)
        return kserve.InferResponse(payload.id or str(uuid.uuid4()), "digits", [output])


if __name__ == "__main__":
    model = Digits()
    model.load()
    kserve.ModelServer().start([model])
