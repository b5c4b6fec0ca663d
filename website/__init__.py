"""What the documentation site is made of beside the pages in docs/: pages from other files and from the code."""
