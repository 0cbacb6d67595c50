"""Rules of a verdict, one module per kind of evidence."""
