"""The algorithm of Chandy and Lamport (1985).

`recorder` is the algorithm. `process` and `network` are the world it runs in, `bank` and `schedule` give that world
something to do, `checker` judges what came out, `worked_run` is the run that textbooks show.
"""
