"""The terminal: parse, call, render, return."""
