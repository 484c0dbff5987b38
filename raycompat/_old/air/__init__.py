"""Callbacks of ``ray.air``: for trackers of experiments, and for Keras."""
