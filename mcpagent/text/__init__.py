"""What is done to texts before they are shown, sent or kept."""
