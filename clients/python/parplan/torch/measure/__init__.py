"""Measurements of PyTorch modules and of its collectives, as profiles that planners read."""
