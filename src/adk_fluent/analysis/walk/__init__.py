"""The walk over the steps in the order in which they run; it finds the facts about every key and history."""
