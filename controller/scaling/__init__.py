"""Changes the numbers of read and write queues of topics, so that no message is lost, skipped or reordered."""
