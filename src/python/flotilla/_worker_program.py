"""What worker processes of native environments run: started by path, not as a part of the package."""

import sys

import _native  # beside this file, in the folder that Python puts first

STATUS = _native.serve_as_worker(sys.argv)
sys.exit("flotilla: a worker program, started by the library" if STATUS is None else STATUS)
