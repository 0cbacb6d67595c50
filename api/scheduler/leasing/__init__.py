"""How work is handed out: assignment, queue, batches, transactions."""
