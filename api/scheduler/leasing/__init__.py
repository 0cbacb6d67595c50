"""Assignment of jobs to workers: queue, batches, transactions."""
