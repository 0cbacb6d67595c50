"""Pages of a search's variants, and of one variant."""
