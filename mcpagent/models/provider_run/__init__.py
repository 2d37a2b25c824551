"""Tools that a model's provider runs by itself: as values, as requests write them, and as answers tell of them."""
