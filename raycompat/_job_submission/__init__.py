"""Jobs that are submitted: the client, and the processes between the scheduler and the command.

The scheduler keeps the records (`_scheduler.submissions`). The *submitter* is a short process on the
scheduler's host: a driver that makes one detached actor for each new job. This actor, the *supervisor*,
runs the command on its node, with the job's environment and resources, and reports its end.
"""
