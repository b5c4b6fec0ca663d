"""The page of `onceward ui`: what homes, their drivers and Kafka tell, read and never written."""
