"""What can be seen of a running pipeline, and how it is said: for a terminal, for programs, for a page. Pure."""
