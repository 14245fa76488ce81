"""The findings that several checks make, and the wording of their messages."""
