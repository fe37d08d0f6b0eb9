"""The library of the end-to-end scripts. Needs only Python 3.9 or later."""
