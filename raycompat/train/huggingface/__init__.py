"""Train with the libraries of Hugging Face."""

from raycompat._surface.modules import names_of

__getattr__ = names_of(__name__)
