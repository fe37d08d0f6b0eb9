"""The two kinds of failures."""


class Usage(Exception):
    """The command line or the machine is unsuitable; the message says how to fix that."""


class Broken(Exception):
    """A server, the origin or a client failed."""
