"""Names that programs outside this repository import; the modules themselves are in `workers.backends`."""
