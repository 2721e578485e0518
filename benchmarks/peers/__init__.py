"""Programs that do the same work under other systems; run by their own Python, print JSON."""
