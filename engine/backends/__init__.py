"""From a replica's spec to the command that runs it."""
