"""The parts of ``ray._private`` that programs import."""

from raycompat._private import services as services  # programs read it without an import
