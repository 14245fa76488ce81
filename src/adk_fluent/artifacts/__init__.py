"""The operations of `A` on artifacts, the files that ADK stores beside the state of a session.

An operation is a frozen value. Its method `work` yields requests (see `requests`), and the backend that runs
it sends the answers back, so this package touches no file. `formats` converts values to bytes and back.
It imports `ir` and `state`. Read `operations.base.ArtifactOperation.work` first.
"""
