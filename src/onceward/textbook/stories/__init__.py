"""One module for each story. Its `STORY` is found by the name in `library`; what is heavy is imported in functions."""
