"""What can go wrong, by who can mend it."""


class Usage(Exception):
    """The command line or the machine is not as it must be; the message says what to do."""


class Broken(Exception):
    """A server, the origin or a client did not do what it must."""
