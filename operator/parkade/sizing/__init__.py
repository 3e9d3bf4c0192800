"""Pure sizing: values in, values out. Traffic and memory become settings, with the arithmetic."""
