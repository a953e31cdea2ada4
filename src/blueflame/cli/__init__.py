"""The terminal face: one file per verb; parse, call, render, return."""
