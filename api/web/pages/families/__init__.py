"""Pages of the kernel families."""
