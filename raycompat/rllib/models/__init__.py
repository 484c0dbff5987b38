"""Networks of users: `ModelCatalog`."""

from raycompat.rllib.models.catalog import ModelCatalog

__all__ = ["ModelCatalog"]
