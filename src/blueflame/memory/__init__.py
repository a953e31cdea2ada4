"""What later sessions should know: records, recall, providers."""
