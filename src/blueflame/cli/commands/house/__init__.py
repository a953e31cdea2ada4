"""The commands of the house: serve it, list its requests, wait for them, set up its bot."""
