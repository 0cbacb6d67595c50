"""Parts of the judge's side of a kernel process: messages, memory, state, batches of calls, start and faults."""
