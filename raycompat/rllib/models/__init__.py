"""Networks of users: `ModelCatalog`."""

from raycompat._surface.modules import names_of
from raycompat.rllib.models.catalog import ModelCatalog

__all__ = ["ModelCatalog"]

__getattr__ = names_of(__name__)
