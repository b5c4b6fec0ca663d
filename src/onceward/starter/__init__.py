"""The project that `onceward new` makes, as it is: files that run, in which one name is replaced."""
