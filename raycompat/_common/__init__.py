"""The parts of ``ray._common`` that programs import."""
