"""A model for MLServer: an ONNX file behind the Open Inference Protocol, with a program for each batch size (see sessions.py)."""

import mlserver
from mlserver.codecs import NumpyCodec

from sessions import Sessions


class Digits(mlserver.MLModel):
    async def load(self):
        self.sessions = Sessions()
        return True

    async def predict(self, payload):
        digits = self.sessions.digits(NumpyCodec.decode_input(payload.inputs[0]))
        return mlserver.types.InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("digit", digits)])
