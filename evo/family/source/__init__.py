"""What a family says of its sources: their languages, compiler flags, and Triton's decorators."""
