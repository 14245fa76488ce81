"""The effects of steps on state keys, independent of the order in which they run."""
