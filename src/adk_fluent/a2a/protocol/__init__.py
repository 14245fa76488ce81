"""The A2A protocol as a client and a server need it: cards, connections, answers, and versions of a2a-sdk."""
