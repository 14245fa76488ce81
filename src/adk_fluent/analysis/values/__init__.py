"""What one state key may hold, and what steps do to it."""
