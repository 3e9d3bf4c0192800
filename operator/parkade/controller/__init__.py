"""The order of things: the queue, one pass over one endpoint, and the process around them."""
