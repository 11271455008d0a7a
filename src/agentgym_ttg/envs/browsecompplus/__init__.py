"""BrowseComp-Plus: questions that join several constraints, over a fixed corpus.

* :mod:`.env` is the environment, :mod:`.judges` and :mod:`.calibration` its scoring.
* :mod:`.data` reads the published layout, in which the built-in set is shipped too; :mod:`.obfuscation` decodes it.
"""
