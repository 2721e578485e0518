"""Programs that measure, print JSON, and run what they compare with in the same run."""
