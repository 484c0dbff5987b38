"""What Ray keeps in ``ray._common`` and programs import from there."""
