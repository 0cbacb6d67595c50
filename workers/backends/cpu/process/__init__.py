"""Parts of the judge's side of a kernel process."""
