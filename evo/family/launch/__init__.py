"""How a kernel is launched: its entry function, launch geometry and tensor maps."""
