"""Compatibility alias for external programs: `Nvrtc` is in `workers.backends.cuda.compilers.nvrtc_library`."""

from workers.backends.cuda.compilers.nvrtc_library import Nvrtc

__all__ = ["Nvrtc"]
