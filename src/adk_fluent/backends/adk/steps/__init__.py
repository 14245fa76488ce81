"""The native agents that nodes become.

ADK takes a folder called `agents` for one of the user's, and says so at each run; hence the name.
"""
