"""Tools by which agents evolve kernels on a service."""
