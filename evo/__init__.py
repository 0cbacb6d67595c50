"""kernel-evo: the search for fast kernels. No I/O, no SQL, no HTTP and no device here, except in `evo.cli`."""
