"""kernel-evo: a search for fast kernels. Only `evo.cli` uses SQL, an HTTP server or a device."""
