"""Plain data drawn with rich."""
