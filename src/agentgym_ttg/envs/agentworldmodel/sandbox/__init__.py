"""Running a world's code, which is not trusted, in processes with limits.

A launcher process forks a server for each world, which loads its code once and forks a process for each episode. So an
episode begins with fresh program state in a few milliseconds, and can be killed without harm to anything else.
"""
