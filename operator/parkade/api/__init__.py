"""The resource as values: what users write, what Parkade reports, and the names both use."""
