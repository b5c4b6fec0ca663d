"""What the stories about Kafka stand on: one request at a time, a reader of another make, processes to kill."""
