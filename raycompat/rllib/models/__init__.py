"""Networks of users: `ModelCatalog`."""

from raycompat.rllib.models.catalog import ModelCatalog, custom_trunk

__all__ = ["ModelCatalog", "custom_trunk"]
