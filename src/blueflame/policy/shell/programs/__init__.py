"""What the arguments of well-known programs mean: which are files, which run something."""
