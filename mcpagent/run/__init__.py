"""One run: requests, calls, and the middleware around them."""
