"""What the words of well-known programs mean: which are files, which run something, which are only text."""
