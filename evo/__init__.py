"""kernel-evo: a search for fast kernels. Only `evo.cli` does I/O or uses SQL, an HTTP server or a device."""
