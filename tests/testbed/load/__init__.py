"""Open-loop load for engines on this machine: known lengths and arrivals, bounded."""
