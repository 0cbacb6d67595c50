"""Parts of `KernelProcess`: messages, memory, process state, batches of calls, start of the process, and faults."""
