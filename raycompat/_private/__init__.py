"""The parts of ``ray._private`` that programs import."""
