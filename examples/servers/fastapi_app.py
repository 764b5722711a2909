"""An application as many are: ready as soon as it listens, while each worker loads runtime and model when it is first asked.

    MODEL=FILE.onnx uvicorn fastapi_app:app --workers 4

POST /predict {"x": [64 numbers]} -> {"digit": 7, "worker": 4711, "cold": false}; "cold" says that this request waited for the model.
Needs the packages fastapi, uvicorn, numpy and onnxruntime.
"""

import os
import threading

import fastapi
import pydantic

app = fastapi.FastAPI()
guard = threading.Lock()
session = None


class Question(pydantic.BaseModel):
    x: list[float] = pydantic.Field(min_length=64, max_length=64)


def load():
    import onnxruntime

    return onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])


@app.get("/healthz")
def healthz():
    return {"status": "ok"}


@app.post("/predict")
def predict(question: Question):
    global session
    cold = session is None
    with guard:
        if session is None:
            session = load()
    import numpy

    image = numpy.asarray(question.x, numpy.float32).reshape(1, 1, 8, 8)
    scores = session.run(None, {session.get_inputs()[0].name: image})[0]
    return {"digit": int(scores.argmax()), "worker": os.getpid(), "cold": cold}
