"""The built-in checks, one module per topic; each check is a plain function from a tree to its findings."""
