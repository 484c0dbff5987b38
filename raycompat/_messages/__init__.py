"""What crosses between callers, the scheduler, nodes and executors: a class for each kind of message.

The modules are named after what their messages are about. The bases of a class say who sends it and who
gets it (`base`). A message has no answer; what answers it is a message of its own.
"""
