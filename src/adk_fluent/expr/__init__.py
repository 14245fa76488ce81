"""The fluent surface: expressions and the operators that join them."""
