"""The world: git, processes, files, the journal, agents. The only door to any of them."""
