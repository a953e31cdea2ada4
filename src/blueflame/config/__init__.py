"""The configuration, blueflame.yaml: find it, load and validate it, migrate, show and write it."""
