"""Retrieval: documents in, ranked passages out, behind one protocol."""

from .base import Retriever
from .bm25 import BM25
from .cache import CACHE_VARIABLE, cache_folder
from .dense import DenseRetriever
from .documents import Corpus, Document, FileCorpus, Hit, MemoryCorpus
from .factory import make_retriever
from .http import HttpRetriever, make_server
from .tantivy import TantivyBM25

__all__ = [
    "BM25",
    "CACHE_VARIABLE",
    "Corpus",
    "DenseRetriever",
    "Document",
    "FileCorpus",
    "Hit",
    "HttpRetriever",
    "MemoryCorpus",
    "Retriever",
    "TantivyBM25",
    "cache_folder",
    "make_retriever",
    "make_server",
]
