"""The curated table of facts: one text file for each kind of subject.

A line is one subject; cells are separated by ``|``, the aliases of a name by ``=``, and ``-`` is an empty cell. All of
it is general textbook knowledge, simplified to one characteristic value for each cell, for question answering inside
the built-in corpus only. None of it is medical advice.
"""
