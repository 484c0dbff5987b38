"""How trials run."""
