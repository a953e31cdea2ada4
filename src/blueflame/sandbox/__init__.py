"""The second wall: bubblewrap, seccomp, mounts and toolchains.

Here belongs what a sandbox contains (build, extra_mounts, toolchains, environment), how it is written down for the
program that creates it (bwrap, seccomp), how it is prepared in an attempt's folder, and whether this machine
supports it (probe). Starting a program in a sandbox is the warden's part; the values are in model/sandbox.
"""
