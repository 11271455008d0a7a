"""ALFWorld: household tasks in text.

* :mod:`.engine` plays the games: the native engine, equal to the official one in text, commands and wins.
* :mod:`.textworld_engine` is the official engine behind the same face (extra ``alfworld``).
* :mod:`.builtin` makes games of this project's own; :mod:`.data` reads the official ones.
* :mod:`.experts` solve them.
"""
