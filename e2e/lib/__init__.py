"""What the end-to-end scripts share. Python 3.9 or later, nothing beside it."""
