"""One attempt, from its checkout to its checked result; one file for each role."""
