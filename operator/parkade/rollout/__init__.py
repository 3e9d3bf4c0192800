"""Pure roll-out: what runs, what it is worth, and the one next action."""
