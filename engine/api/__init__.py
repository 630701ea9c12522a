"""The node's API: HTTP over a Unix socket, JSON bodies, NDJSON streams."""
