"""Tools: what a model can call, as frozen values; made by the factories of `T`."""
