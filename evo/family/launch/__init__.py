"""How a kernel is called: its entry function, launch geometry and tensor maps."""
