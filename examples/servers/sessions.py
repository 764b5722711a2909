"""A model as compiling servers have it: for each batch size a program of its own, made when that size is first asked for.

Needs the packages numpy and onnxruntime.
"""

import os
import threading

import numpy
import onnxruntime


class Sessions:
    def __init__(self):
        self.made, self.guard = {}, threading.Lock()

    def digits(self, image):
        """The digit of each picture in image, float32 [batch, 1, 8, 8]."""
        batch = len(image)
        with self.guard:
            if batch not in self.made:
                options = onnxruntime.SessionOptions()
                options.add_free_dimension_override_by_name("batch", batch)
                options.intra_op_num_threads = 1
                self.made[batch] = onnxruntime.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])
        return self.made[batch].run(["scores"], {"image": image.astype(numpy.float32)})[0].argmax(axis=1).astype(numpy.int64)
