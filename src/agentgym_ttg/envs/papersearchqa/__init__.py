"""PaperSearchQA: questions answered by searching biomedical abstracts.

* :mod:`.env` is the environment.
* :mod:`.data` reads published questions and corpora.
* :mod:`.builtin` makes the built-in ones: :mod:`.table` reads the facts, :mod:`.relations` words them, :mod:`.writer`
  writes the abstracts and :mod:`.questions` the questions.
* :mod:`.answers` decides what is right; :mod:`.expert` searches for the supporting facts.
"""
