"""Draws views with rich. Nothing is computed here that another face would need: that belongs to views/."""
