"""Tools that let agents submit variants to a service, over the Model Context Protocol."""
