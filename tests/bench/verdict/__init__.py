"""Whether verdicts are right: error rates on recorded noise, and predictions against processes measured later."""
