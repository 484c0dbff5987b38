"""The part of RLlib's core that configs name."""
