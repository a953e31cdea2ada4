"""What the house does next: which request is admitted, which runs, who is asked, which agent gets a free slot.

Pure: the time, the state of the house and the configuration are passed in.
Belongs here: trust, duplicates, rate limits, queues, slots of the pool, quiet hours, times of schedules.
Does not belong here: anything that reads, writes, waits or prints (house/), what happens in a session (session/).
"""
