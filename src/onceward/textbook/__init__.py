"""The textbook that runs: each story shows one idea of exactly-once processing, on the real thing where there is one.

`story` says what a story is, `stage` is how it speaks and what it may use, `pictures/` is what it can draw, `library`
lists the stories, `telling` runs one. `terminal` and `page` show it.
"""
