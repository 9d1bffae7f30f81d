#!/usr/bin/env python3
"""Writes python.safetensors with the safetensors package: one tensor for everything that is read."""

import sys

import numpy as np
from safetensors.numpy import save_file

save_file(
    {
        "actor.0.weight": np.array([[0.5, -1.25, 3.0], [1e-45, -0.0, np.inf]], dtype=np.float32),
        "actor.0.bias": np.array([np.float32(0.1), -2.0], dtype=np.float32),
        "obs.mean": np.array([0.1, -1e300, 5e-324], dtype=np.float64),
        "count": np.array(-9007199254740993, dtype=np.int64),
        "flags": np.array([[0, 1], [127, 255]], dtype=np.uint8),
        "empty": np.zeros((3, 0), dtype=np.float32),
        'caf\u00e9 "\n': np.array([7], dtype=np.int64),
    },
    sys.argv[1],
    metadata={"made by": "safetensors for Python"},
)
