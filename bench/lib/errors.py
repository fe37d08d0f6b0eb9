"""Failures, by the side that can mend them."""


class Usage(Exception):
    """The command line or the machine is not as it must be; the message says how to mend it."""


class Broken(Exception):
    """A server, the origin or a client failed."""
