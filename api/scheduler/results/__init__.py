"""How results are taken in: once, validated, stored."""
