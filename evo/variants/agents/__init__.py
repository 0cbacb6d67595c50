"""Tools of the Model Context Protocol, with which agents evolve kernels on a service."""
