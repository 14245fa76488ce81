"""`A`: artifacts, the files that are kept beside the state, as values.

Nothing here touches a file: an operation says which it wants, and whoever runs it answers (see `asking`).
"""
