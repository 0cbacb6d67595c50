"""Import names kept for programs outside this repository; the modules are in `workers.backends`."""
