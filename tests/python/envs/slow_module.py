"""A module that takes as long to import as it is told to."""

import os
import time

from python_envs import Walk as make  # noqa

time.sleep(float(os.environ.get("SLOW_IMPORT_S", "0")))
