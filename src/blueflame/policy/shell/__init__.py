"""Reads a shell command and judges each simple command in it."""
