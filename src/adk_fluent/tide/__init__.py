"""What the installed google-adk changed against the one that adk-fluent's generated fields were made from.

`scan` reads an ADK, `diff` compares two scans, `report` tells what the differences mean to a user;
`reference.json` is the scan that the generated modules were made from. It all works on an ADK that adk-fluent
has never seen: what cannot be read is said. No module here imports ADK before it scans.
"""
