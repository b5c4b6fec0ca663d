"""A process that says who it is and waits."""

import os

from onceward.textbook.kafka.child import Announcer

if __name__ == "__main__":
    Announcer.wait(pid=os.getpid())
