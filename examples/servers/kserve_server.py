"""A model server made with KServe's Python SDK, as its users write them: an ONNX model behind the Open Inference Protocol, with a program for
each batch size (see sessions.py).

    MODEL=FILE.onnx kserve_server.py --http_port 8080

digits: image FP32 [-1, 1, 8, 8] -> digit INT64 [-1]. Needs the packages kserve and onnxruntime.
"""

import uuid

import kserve

from sessions import Sessions


class Digits(kserve.Model):
    def __init__(self):
        super().__init__("digits")
        self.sessions = None

    def load(self):
        self.sessions = Sessions()
        self.ready = True
        return self.ready

    def get_input_types(self):
        return [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]

    def get_output_types(self):
        return [{"name": "digit", "datatype": "INT64", "shape": [-1]}]

    async def predict(self, payload, headers=None, response_headers=None):
        digit = self.sessions.digits(payload.inputs[0].as_numpy())
        output = kserve.InferOutput("digit", list(digit.shape), "INT64")
        output.set_data_from_numpy(digit, binary_data=False)
        return kserve.InferResponse(payload.id or str(uuid.uuid4()), "digits", [output])


if __name__ == "__main__":
    model = Digits()
    model.load()
    kserve.ModelServer().start([model])
