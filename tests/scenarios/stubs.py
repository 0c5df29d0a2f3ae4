"""Sources of packages that are broken in one way each, planted in an environment to see how that is told."""

UNDEFINED_SYMBOL = """
    file = "/env/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"
    raise ImportError(file + ": undefined symbol: _ZN3c104cuda9SetDeviceEi")
"""
SEGFAULT = """
    import os, signal
    os.kill(os.getpid(), signal.SIGSEGV)
"""
#: Really dereferences null, for the path through faulthandler: a signal that is sent could be handled otherwise.
NULL_POINTER = """
    import ctypes
    ctypes.memmove(0, 1, 1)  # a C function itself: no frame of ctypes comes between
"""
#: Leaves its process number for tests that look whether it is still there.
HANG = """
    import os, time
    if os.environ.get("STUB_PID_FILE"):
        with open(os.environ["STUB_PID_FILE"], "w") as file:
            file.write(str(os.getpid()))
    time.sleep(600)
"""
#: time.sleep answers to signals; a lock that is never released inside C code does not come back to Python.
HANG_IN_C = """
    import ctypes
    libc = ctypes.PyDLL(None)  # keeps the GIL while it waits
    libc.sleep(600)
"""
#: As extensions that compile themselves on import do.
BUILDS = """
    import os, subprocess
    compiler = subprocess.Popen(["sleep", "600"])
    with open(os.environ["STUB_PID_FILE"], "w") as file:
        file.write(str(compiler.pid))
    compiler.wait()
"""
LOUD = """
    import sys
    for _ in range(20):
        sys.stdout.write("o" * 1_000_000 + "\\n")
        sys.stderr.write("e" * 1_000_000 + "\\n")
    __version__ = "9.9"
"""
LEAVES = """
    import os
    os._exit(3)
"""
TORCH_VERSION = """\
from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.13.0+cpu'
debug = False
cuda: Optional[str] = None
git_version = 'cf30153942a96e6fc0a7ee8d3ec0ae3c5b00ddea'
hip: Optional[str] = None
"""
