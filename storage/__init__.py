"""What the cockpit remembers: SQLite, one writer, readers apart. Knows neither engines nor screens."""
