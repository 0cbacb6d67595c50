"""`Nvrtc` under the import name kept for programs outside this repository."""

from workers.backends.cuda.compilers.nvrtc_library import Nvrtc

__all__ = ["Nvrtc"]
