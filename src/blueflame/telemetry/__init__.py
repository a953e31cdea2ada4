"""What an attempt leaves in its folder, read from outside."""
