"""Evolution of variants by a language model."""
