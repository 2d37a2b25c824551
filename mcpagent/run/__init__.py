"""Answer one prompt: requests, calls, and the middleware around them."""
