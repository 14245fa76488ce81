"""Runs whose every effect is a step that an engine does, keeps, and never does again once it is done."""
