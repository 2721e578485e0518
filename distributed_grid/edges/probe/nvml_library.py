"""The shim between `nvidia-ml-py` and a library at a path of our choice.

Lives here: the only lines that know pynvml's insides. Never here: what is asked (`gpu_nvidia`).

Why: on Linux pynvml loads "libnvidia-ml.so.1" by that name and takes no path, neither as an
argument nor from the environment. Drivers in odd places (Nix, WSL's /usr/lib/wsl/lib, a mounted
host) and the fake library of the tests need one. Its loader skips loading when the module's
`nvmlLib` is set, so we set it; its cache of functions must go with it.
`test_the_shim_is_still_needed` fails when pynvml learns to take a path.
"""

import ctypes
from typing import Any


def load(path: str | None) -> Any:
    """The pynvml module, bound to the library at `path`, or to the usual one.

    Raises OSError if that file is no library. The module is imported only now: it costs some
    50 ms, which machines without an NVIDIA driver do not pay.
    """
    import pynvml

    wanted = None if path is None else ctypes.CDLL(path)
    current = pynvml.nvmlLib
    if (current and current._name) != (wanted and wanted._name):  # noqa: SLF001
        pynvml.nvmlLib = wanted
        pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001
    return pynvml
