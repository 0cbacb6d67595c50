"""Error rates of verdicts on recorded noise, and predictions compared with processes measured later."""
