"""The command `parplan-torch`."""
