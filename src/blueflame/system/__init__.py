"""The operating system: processes, files, locks, clock, machine, terminals, notifications.

Here belongs what every package needs from the machine and what knows nothing about sessions. `process` is the only
module that runs programs, `files` writes atomically, `flock` holds locks, `layout` names the paths of the state folder.
What an attempt leaves in its folder is read by telemetry/, git is in git/.
"""
