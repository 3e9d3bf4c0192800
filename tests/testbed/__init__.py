"""Test equipment: a real cluster, a simulated engine, load. Shares no code with Parkade."""
