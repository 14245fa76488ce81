"""The walk over the steps in running order."""
