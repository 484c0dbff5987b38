"""What Ray keeps in ``ray._private`` and programs import from there."""
