"""`Nvrtc` under the name that programs outside this repository import."""

from workers.backends.cuda.nvrtc_library import Nvrtc

__all__ = ["Nvrtc"]
