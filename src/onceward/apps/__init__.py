"""Applications built on the public API alone: to read, to run, to copy from."""
