"""The story of the product on a real node: told in a terminal, or played as a test."""
